//! The first process of a test pod: holds the pod's namespaces, buries what dies in them, and ends when it is told to.

use std::process::ExitCode;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

fn main() -> ExitCode {
    let signals = SigSet::from_iter([Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM]);
    // Blocked, they wait to be fetched, and none is lost between two fetches.
    if let Err(errno) = signals.thread_block() {
        eprintln!("pause: cannot block signals: {errno}");
        return ExitCode::FAILURE;
    }
    loop {
        match signals.wait() {
            Ok(Signal::SIGCHLD) => bury(),
            Ok(_) => return ExitCode::SUCCESS,
            Err(errno) => {
                eprintln!("pause: cannot wait for signals: {errno}");
                return ExitCode::FAILURE;
            }
        }
    }
}

/// Reaps all that have ended; one signal may stand for several.
fn bury() {
    while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status != WaitStatus::StillAlive) {}
}
