//! Between the machine and a cell: makes the namespaces and the first process in them.
//!
//! ```text
//! baton-node start ── spawns ──> baton-node boot ── forks ──> first process (pid 1 of the cell)
//!        └──────────────── lifeline (a socket pair) ─────────────────┘
//! ```
//! The first process tells over the lifeline when the cell is ready. If the other end closes before that, the
//! start was given up, and it ends, and with it everything in the cell.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{ForkResult, fork, setsid};

use crate::cell::{Cell, First, Role};
use crate::rootfs::run;
use crate::{cgroup, house, init};

/// Longest wait for a cell to become ready: two seconds are promised, the rest is for a busy machine.
const READY_DEADLINE: Duration = Duration::from_secs(60);
/// What the first process sends when all runs.
pub const READY: &str = "ready\n";
/// What the first process is told when it is written down.
const GO: &[u8] = b"go\n";

/// Starts a cell that is written down and waits until it is ready.
pub fn launch(cell: &Cell) -> Result<()> {
    let (mut mine, theirs) = UnixStream::pair().attempt(|| "make a socket pair")?;
    let log_path = Cell::run_dir(&cell.name).join("log");
    let log = File::create(&log_path).attempt(|| format!("make {}", log_path.display()))?;
    let own = std::env::current_exe().attempt(|| "find the own program")?;
    let mut child = Command::new(own)
        .args(["boot", &cell.name])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(log.try_clone().attempt(|| "share the log")?)
        .stderr(log)
        .spawn()
        .attempt(|| "start the first process")?;
    let mut said = String::new();
    mine.set_read_timeout(Some(READY_DEADLINE)).attempt(|| "set a deadline")?;
    // The first process closes its end after the one word it says.
    let heard = mine.read_to_string(&mut said);
    let _ = child.wait();
    if said == READY {
        return Ok(());
    }
    let tail = std::fs::read_to_string(&log_path).unwrap_or_default();
    let fault = Fault::parse(&said).unwrap_or_else(|| match heard {
        Err(err) => Fault::new(Code::Deadline, "wait until it is ready", err),
        Ok(_) => Fault::new(Code::System, "wait until it is ready", last_line(&tail)),
    });
    Err(fault.during(format_args!("start node {}", cell.name)))
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or("its first process ended")
}

/// The program `baton-node boot NAME`: its standard input is the lifeline.
pub fn boot(name: &str) -> Result<()> {
    let cell = Cell::load(name)?;
    let lifeline = std::io::stdin().as_fd().try_clone_to_owned().attempt(|| "take the lifeline")?;
    let _ = setsid();
    cgroup::join(&cell.cgroups)?;
    make_apart(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWCGROUP,
    )?;
    if cell.role == Role::Node {
        plug_in(&cell)?;
    }
    let (mut go, wait) = UnixStream::pair().attempt(|| "make a socket pair")?;
    // Last: from here on the next child is the first process of the new pid namespace.
    make_apart(CloneFlags::CLONE_NEWPID)?;
    // SAFETY: this process has one thread, so the child may do anything a process may.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => {
            drop(wait);
            let first = First::of(child.as_raw());
            let unseen =
                || Fault::new(Code::State, format!("write down node {name}"), "its first process cannot be seen");
            first.ok_or_else(unseen)?.store(name)?;
            go.write_all(GO).attempt(|| "let the first process begin")
        }
        Ok(ForkResult::Child) => {
            drop(go);
            begin_when_told(wait);
            init::run(&cell, lifeline)
        }
        Err(errno) => Err(Fault::io("fork the first process", &errno.into())),
    }
}

/// The first process makes another root the root of both, after which its parent finds neither /proc nor where to write
/// it down. One that nobody has written down ends.
fn begin_when_told(mut wait: UnixStream) {
    let mut word = Vec::new();
    if wait.read_to_end(&mut word).is_err() || word != GO {
        std::process::exit(1);
    }
}

fn make_apart(what: CloneFlags) -> Result<()> {
    unshare(what).map_err(|errno| Fault::io("make namespaces", &errno.into()).advise("run it as root"))
}

/// Lays a cable from this (new) network namespace to the bridge in the hub.
fn plug_in(cell: &Cell) -> Result<()> {
    let hub = Cell::running(house::HUB)?.pid.to_string();
    let port = format!("n{}", cell.number);
    run(Command::new("ip").args(["link", "add", "eth0", "type", "veth", "peer", "name", &port, "netns", &hub]))?;
    run(Command::new("nsenter").args(["--net", "--target", &hub, "ip", "link", "set", &port, "master", "br0", "up"]))
}
