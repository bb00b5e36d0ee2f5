//! The one place that reaps: children of the shim, and the orphans of its containers, which fall to it as their
//! subreaper. The shim library's own reaper loses a process that was ended by a real-time signal, since such signals
//! have no name in its bindings; numbers do not mind.

use baton_fault::{Attempt, Result};
use containerd_shim::monitor::monitor_notify_by_pid;
use tokio::signal::unix::{SignalKind, signal};

/// Starts to reap. From now on the end of every child is told to the watches of `children`.
///
/// # Errors
/// `SYSTEM` when no signal handler can be had.
pub fn start() -> Result<()> {
    let mut children = signal(SignalKind::child()).attempt(|| "watch for the ends of children")?;
    tokio::spawn(async move {
        loop {
            while let Some((pid, status)) = reap() {
                if let Err(err) = monitor_notify_by_pid(pid, status).await {
                    log::error!("the end of process {pid} could not be told: {err}");
                }
            }
            if children.recv().await.is_none() {
                return;
            }
        }
    });
    Ok(())
}

/// A child that has ended, and how: its exit status, or 128 + the signal that ended it.
fn reap() -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: waitpid writes to `status`, which lives through the call.
    let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    (pid > 0).then(|| (pid, exit_status(status)))
}

fn exit_status(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

#[cfg(test)]
mod tests {
    use super::exit_status;

    #[test]
    fn exits_and_signals_with_and_without_names_are_told() {
        assert_eq!(exit_status(0), 0);
        assert_eq!(exit_status(42 << 8), 42);
        assert_eq!(exit_status(9), 137);
        assert_eq!(exit_status(37), 165, "a real-time signal");
        assert_eq!(exit_status(11 | 0x80), 139, "with a core");
    }
}
