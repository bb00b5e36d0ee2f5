//! `baton-hook`: one run per OCI hook. The runtime gives it the container's state on standard input.

use std::io::Read;
use std::process::ExitCode;

use baton_fault::{Attempt, Result};
use baton_hook::{Container, Work};

/// Largest state that is read, in bytes: it holds the container's annotations, which containerd bounds lower.
const STATE_MAX: u64 = 1 << 20;

fn main() -> ExitCode {
    match hook() {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn hook() -> Result<()> {
    let work = Work::parse(std::env::args_os().skip(1))?;
    let mut state = Vec::new();
    std::io::stdin()
        .lock()
        .take(STATE_MAX + 1)
        .read_to_end(&mut state)
        .attempt(|| "read the container's state from standard input")?;
    let container = Container::from_state(&state)?;
    baton_hook::run(&work, &container).map_err(|fault| {
        let fault = fault.during("prepare the GPU inside the container");
        baton_hook::leave(container.bundle(), &fault);
        fault
    })
}
