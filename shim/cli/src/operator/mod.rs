//! The operator's verbs: what a person asks of Baton on a node.

mod containerd;
mod devices;
mod inspect;
mod save;
mod sizes;
mod worker;

use std::ffi::OsString;
use std::future::Future;
use std::process::ExitCode;

use baton_fault::{Attempt, Result};

/// Runs the operator's verb `verb`; `None` when there is none of that name.
pub fn run(verb: &str, args: &[OsString]) -> Option<Result<ExitCode>> {
    // A reader that has seen enough, as `head`, ends the printing without a word.
    end_with_the_reader();
    Some(match verb {
        "save" => save::run(args),
        "devices" => devices::run(args),
        "inspect" => inspect::run(args),
        baton_checkpoint::publish::VERB => worker::run(args),
        _ => return None,
    })
}

fn end_with_the_reader() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler is installed, only the default action.
    if let Err(err) = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) } {
        eprintln!("baton: SIGPIPE stays ignored: {err}");
    }
}

/// Runs what waits for sockets, on this thread.
fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .attempt(|| "start to wait for sockets")?
        .block_on(work)
}
