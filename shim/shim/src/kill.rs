//! Kill: a signal for a process, or for all of a container.

use std::sync::Arc;
use std::time::Duration;

use baton_fault::{Code, Fault, Result};
use containerd_shim_protos::api::KillRequest;
use nix::errno::Errno;
use time::OffsetDateTime;

use crate::container::{Container, say_exit};
use crate::process::{Exit, Phase, Process};
use crate::task::Shim;

/// Longest wait for a start that is under way: the signal is for what it starts.
const START_PATIENCE: Duration = Duration::from_secs(2);

/// Sends a signal.
///
/// # Errors
/// `NOT_FOUND` when there is no such process any more, `STATE` when there is none yet.
pub async fn kill(shim: &Shim, request: &KillRequest) -> Result<()> {
    let container = shim.container(&request.id)?;
    let process = container.process(&request.exec_id)?;
    process.wait_started(START_PATIENCE).await;
    let (phase, pid) = {
        let mut life = process.life();
        if life.phase == Phase::Starting && life.pid == 0 && request.exec_id.is_empty() {
            // A restore takes its time; what it restores gets the signal.
            life.pending.push(request.signal);
            return Ok(());
        }
        (life.phase, life.pid)
    };
    match phase {
        Phase::Stopped => Err(gone(&request.id)),
        // Signal 0 only asks.
        Phase::Created if pid == 0 && request.exec_id.is_empty() && request.signal == 0 => Ok(()),
        // A checkpoint that was never started has no process: it ends as if killed.
        Phase::Created if pid == 0 && request.exec_id.is_empty() => {
            end_unstarted(shim, &container, &process, request.signal);
            Ok(())
        }
        // Its pid is not known yet, and a signal to pid 0 would go to the shim's own process group.
        _ if pid == 0 => {
            let (is, advice) = match phase {
                Phase::Created => ("it was not started", "start it first"),
                _ => ("it is being started", "try again"),
            };
            Err(Fault::new(Code::State, format!("kill a process of {}", request.id), is).advise(advice))
        }
        _ if !request.exec_id.is_empty() => signal(pid, request.signal).map_err(|errno| match errno {
            Errno::ESRCH => gone(&request.id),
            errno => Fault::new(Code::System, format!("signal process {pid}"), errno),
        }),
        _ => container.engine.kill(request.signal, request.all).await.map_err(|fault| match fault.code {
            // It has ended, and the shim is about to learn of it.
            Code::State | Code::NotFound => gone(&request.id),
            _ => fault,
        }),
    }
}

/// Sends a container's init what came for it while it was being restored.
pub async fn deliver(container: &Container, process: &Process, signals: &[u32]) {
    for signal in signals {
        if process.life().phase == Phase::Stopped {
            return;
        }
        if let Err(fault) = container.engine.kill(*signal, false).await {
            log::warn!("{fault}");
        }
    }
}

fn gone(id: &str) -> Fault {
    Fault::new(Code::NotFound, format!("kill {id}"), "the process has already finished")
        .advise("`ctr task delete` gives its exit status")
}

/// Ends a process that never ran, as if by that signal.
pub fn end_unstarted(shim: &Shim, container: &Arc<Container>, process: &Process, signal: u32) {
    let exit = Exit { status: 128 + signal, at: OffsetDateTime::now_utc() };
    process.ended(exit, |exit| say_exit(&container.id, &process.exec_id, 0, exit, &shim.events));
}

fn signal(pid: u32, signal: u32) -> nix::Result<()> {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 1).ok_or(Errno::ESRCH)?;
    let number = i32::try_from(signal).map_err(|_| Errno::EINVAL)?;
    // SAFETY: a plain system call on numbers; real-time signals have no name in nix.
    Errno::result(unsafe { libc::kill(pid, number) }).map(drop)
}
