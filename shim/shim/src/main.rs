//! `containerd-shim-baton-v2`: containerd's Task service, version 3, for one pod or lone container.
//!
//! The shim runs the engine (`baton`, or whatever `BinaryName` says) as a program for everything that forks or
//! enters namespaces, and owns the order of every pause, checkpoint and restore itself. Nothing slow runs
//! under a lock, so State of one container never waits for another.

mod abandoned;
mod children;
mod container;
mod control;
mod create;
mod delete;
mod destination;
mod dump_options;
mod engine;
mod events;
mod execs;
mod fifo;
mod headroom;
mod hierarchy;
mod idmapped;
mod info;
mod kill;
mod logger;
mod logs;
mod members;
mod oom;
mod options;
mod own_cgroup;
mod process;
mod reaper;
mod save;
mod service;
mod start;
mod state;
mod stats;
mod status;
mod stdio;
mod task;
mod terminal;
mod trust;
mod update;
mod user_namespace;

use baton_fault::{Code, Fault, Result};

/// containerd's name of the runtime.
const RUNTIME: &str = baton_config::names::RUNTIME;

fn main() {
    // Before there is a second thread, and without what the library does at every start.
    if std::env::args_os().nth(1).is_some_and(|verb| verb == user_namespace::VERB) {
        return user_namespace::hold();
    }
    serve();
}

#[tokio::main(flavor = "current_thread")]
async fn serve() {
    match usage() {
        Ok(Asked::Version) => return info::print_version(),
        Ok(Asked::Rest) => {}
        Err(fault) => {
            eprintln!("{fault}");
            std::process::exit(1);
        }
    }
    // Said here because the library sets up its signals before it makes the service: `reaper` reaps, and nobody else.
    let config = containerd_shim::Config { no_reaper: true, ..Default::default() };
    containerd_shim::asynchronous::run::<service::Service>(RUNTIME, Some(config)).await;
}

/// What a command line asks for.
enum Asked {
    /// `-v`.
    Version,
    /// What the library sees to.
    Rest,
}

/// Refuses a command line that is none of containerd's.
fn usage() -> Result<Asked> {
    let refuse = |why: String| {
        Err(Fault::new(Code::Usage, "start containerd-shim-baton-v2", why)
            .advise("containerd starts it: `ctr run --runtime io.containerd.baton.v2 …`"))
    };
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let flags = match containerd_shim::parse(&args) {
        Ok(flags) => flags,
        Err(err) => return refuse(err.to_string()),
    };
    if flags.version {
        return Ok(Asked::Version);
    }
    if flags.info {
        return Ok(Asked::Rest);
    }
    match flags.action.as_str() {
        "start" if std::env::var_os("TTRPC_ADDRESS").is_none() => refuse("TTRPC_ADDRESS is not set".to_owned()),
        "start" | "delete" => Ok(Asked::Rest),
        "" if flags.socket.is_empty() => refuse("neither a verb nor a socket is named".to_owned()),
        "" => Ok(Asked::Rest),
        verb => refuse(format!("{verb:?} is none of its verbs")),
    }
}
