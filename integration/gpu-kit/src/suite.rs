//! The end-to-end suite: containers under Baton on the real card, by the programs that a user has.

mod container;
mod moved;
mod undone;

use std::process::Command;

use baton_cuda::Driver;

use crate::check::{Notes, Stop, Verdict, demand};
use container::{Container, ok};

use crate::asked::Asked;

pub use container::{PYTHON, PYTHON_JOB};
pub use moved::{cards, counter, family, hold, python, streams, train};
pub use undone::{mig_refused, restore_no_room, save_killed, save_refused};

/// What CRIU says of the kernel.
pub fn criu(notes: &mut Notes) -> Verdict {
    notes.note(ok(&["criu", "--version"])?.lines().next().unwrap_or_default().to_owned());
    let done = Command::new("criu").arg("check").output().map_err(|err| format!("start criu: {err}"))?;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned() + String::from_utf8_lossy(&done.stdout).trim();
    if !said.is_empty() {
        notes.note(said.clone());
    }
    if done.status.success() {
        Ok(())
    } else {
        Err(Stop::CannotRun(format!("this kernel does not do for CRIU: {said}")))
    }
}

/// NVML's cards and CUDA's.
pub fn devices(notes: &mut Notes) -> Verdict {
    let listed = ok(&["baton", "devices", "--json"])?;
    notes.note(listed.trim().to_owned());
    for card in Driver::open()?.cards()? {
        let uuid = card.uuid()?;
        demand(listed.contains(&uuid), || format!("{uuid} is not listed"))?;
    }
    Ok(())
}

/// A container with the first card.
pub fn run(notes: &mut Notes) -> Verdict {
    let container = Container::start("run", "0", &["hold", "64M"])?;
    let status = container.goes_on()?;
    notes.note(format!("{} steps on {}", status.step, status.parts[0].gpu));
    let uuid = Driver::open()?.card().uuid()?;
    demand(status.parts[0].gpu == uuid, || format!("the first card is {uuid}"))?;
    let seen = container.said(&["/bin/ls", "/dev"])?;
    let others =
        seen.lines().filter(|name| name.strip_prefix("nvidia").is_some_and(|rest| rest.parse::<u32>().is_ok()));
    demand(others.count() == 1, || format!("it sees {}", seen.replace('\n', " ")))
}

/// A save that stops nothing.
pub fn save_goes_on(notes: &mut Notes) -> Verdict {
    let container = Container::start("goes-on", "0", &["hold", "256M"])?;
    let before = container.goes_on()?;
    let image = container.save(notes, &[])?;
    let after = container.goes_on()?;
    demand(after.step > before.step, || format!("{} steps, and {} after the save", before.step, after.step))?;
    notes.note(ok(&["baton", "inspect", &image])?.lines().take(12).collect::<Vec<_>>().join("; "));
    Ok(())
}

/// Pause and resume.
pub fn pause(_: &mut Notes) -> Verdict {
    let container = Container::start("pause", "0", &["hold", "64M"])?;
    ok(&["ctr", "task", "pause", container.id()])?;
    ok(&["ctr", "task", "resume", container.id()])?;
    container.goes_on()?;
    Ok(())
}
