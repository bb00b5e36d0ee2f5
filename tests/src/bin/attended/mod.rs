//! A walk over test nodes that leaves none behind, however it ends.
//!
//! ```text
//! program ── takes the keyboard's signals ──> stops what nodes are left
//!    └── program walk (a process group of its own) ── starts nodes, does the work
//! ```

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use baton_fault::{Attempt, Fault, Result};
use baton_nodes::cell::Cell;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::Pid;

/// The argument with which a program calls itself for the work.
const WALK: &str = "walk";
/// As a shell reports a program that a Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// Runs `walk` in a process of its own and stops the nodes of those names if it has left any.
pub fn run(nodes: &[&str], walk: impl FnOnce() -> Result<()>) -> ExitCode {
    let walking = std::env::args().nth(1).is_some_and(|word| word == WALK);
    let done = if walking { walk().map(|()| 0) } else { attend(nodes) };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(fault) => {
            eprintln!("\n{fault}");
            ExitCode::FAILURE
        }
    }
}

fn attend(nodes: &[&str]) -> Result<u8> {
    let own = std::env::current_exe().attempt(|| "find the own program")?;
    let mut child = Command::new(&own);
    child.args([WALK].into_iter().map(String::from).chain(std::env::args().skip(1))).process_group(0);
    let mut child = child.spawn().attempt(|| "start the walk")?;
    // Only now, so that the child has the signals as they were. A signal that comes between ends this process alone,
    // and the child stops its nodes itself.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD]);
    signals.thread_block().map_err(|errno| Fault::io("hold signals back", &errno.into()))?;
    let code = loop {
        if let Some(status) = child.try_wait().attempt(|| "wait for the walk")? {
            break status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        }
        let signal = signals.wait().map_err(|errno| Fault::io("wait for a signal", &errno.into()))?;
        if signal != Signal::SIGCHLD {
            eprintln!("\ninterrupted: stopping the nodes");
            let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
            child.wait().attempt(|| "wait for the walk")?;
            break INTERRUPTED;
        }
    };
    stop(&own, nodes);
    Ok(code)
}

/// Stops what is left. The held-back signals are held back in the children too: a second Ctrl-C does not leave half a
/// node.
fn stop(own: &std::path::Path, nodes: &[&str]) {
    for name in nodes {
        if !Cell::run_dir(name).exists() && !Cell::disk_dir(name).exists() {
            continue;
        }
        let stopped = Command::new(own.with_file_name("baton-node")).args(["stop", name]).status();
        if !stopped.is_ok_and(|status| status.success()) {
            eprintln!("node {name} may be left; integration/node stop {name}");
        }
    }
}
