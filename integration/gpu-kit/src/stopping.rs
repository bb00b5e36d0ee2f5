//! Being stopped by the user: what runs is ended, what is left is not begun, and all is cleared away as after the last
//! check.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Whether to stop.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// The process group that runs at the moment; 0: none.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// Why nothing more is begun.
pub const WHY: &str = "the run was stopped";

/// Stops on what a user, a terminal or a service manager sends.
pub fn on_signals() -> Result<(), String> {
    let action = SigAction::new(SigHandler::Handler(stop), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler uses atomics and kill(2) alone, which a handler may.
        unsafe { sigaction(signal, &action) }.map_err(|err| format!("handle {signal}: {err}"))?;
    }
    Ok(())
}

/// Whether the user has stopped the run.
pub fn stopped() -> bool {
    STOPPED.load(Ordering::SeqCst)
}

/// While this lives, the processes of that group are ended by a stop; also where it has come just before.
#[derive(Debug)]
pub struct Running;

impl Running {
    /// A group that has been started.
    pub fn group(leader: u32) -> Running {
        RUNNING.store(leader.cast_signed(), Ordering::SeqCst);
        if stopped() {
            end(leader.cast_signed());
        }
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.store(0, Ordering::SeqCst);
    }
}

extern "C" fn stop(_: i32) {
    STOPPED.store(true, Ordering::SeqCst);
    end(RUNNING.load(Ordering::SeqCst));
}

fn end(group: i32) {
    if group > 0 {
        // SAFETY: no memory is passed. The group may be gone already.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}
