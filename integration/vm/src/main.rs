//! `baton-vm`: a run of two nodes in virtual machines, each with a kernel of its own and with cgroup version 2 alone, which
//! has its controllers there. Limits, what is used, the notice that memory is out and device rules are those of a real
//! kernel; a checkpoint of one node goes to the other and goes on there.
//!
//! The machines are emulated in software, so it takes minutes. Everything ends with this program, and this program ends
//! at its deadline.

mod image;
mod machine;
mod walk;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use baton_fault::Result;

use crate::image::Image;
use crate::machine::{Machine, Side};

/// Longest run: some ten times what an idle machine with two processors takes.
const DEADLINE: Duration = Duration::from_secs(900);

fn main() -> ExitCode {
    let began = Instant::now();
    std::thread::spawn(|| {
        std::thread::sleep(DEADLINE);
        eprintln!("the run was given up after {DEADLINE:?}");
        // The machines are told by the kernel.
        std::process::exit(1);
    });
    match run(began) {
        Ok(()) => {
            println!("the two machines did all of it in {} s", began.elapsed().as_secs());
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(began: Instant) -> Result<()> {
    let say = |what: &str| println!("{:>4} s  {what}", began.elapsed().as_secs());
    let image = Image::make()?;
    say("the image is made");
    let mut machines = [Side::Left, Side::Right].map(|side| Machine::boot(&image, side));
    let [Ok(left), Ok(right)] = &mut machines else {
        let [left, right] = machines;
        return left.and(right).map(drop);
    };
    left.wait()?;
    right.wait()?;
    say("both machines run containerd");
    walk::limits(left)?;
    say("limits hold, and what is used is told");
    walk::devices(left)?;
    say("device rules hold");
    walk::memory_runs_out(left)?;
    say("a container that ran out of memory was told of");
    walk::goes_on_elsewhere(left, right)?;
    say("a checkpoint of one machine went on on the other");
    Ok(())
}
