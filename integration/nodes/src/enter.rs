//! Running a command in a node.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigHandler, Signal, signal};

use crate::cell::Cell;
use crate::{cgroup, init};

/// The namespaces of a cell, by their names in /proc/PID/ns.
const NAMESPACES: &[(&str, CloneFlags)] = &[
    ("cgroup", CloneFlags::CLONE_NEWCGROUP),
    ("ipc", CloneFlags::CLONE_NEWIPC),
    ("uts", CloneFlags::CLONE_NEWUTS),
    ("net", CloneFlags::CLONE_NEWNET),
    ("pid", CloneFlags::CLONE_NEWPID),
    ("mnt", CloneFlags::CLONE_NEWNS),
];

/// Moves the calling process into the node `name`, runs the command there, and returns its exit status as a
/// shell would. The command ends with this process, and with the node.
pub fn exec(name: &str, command: &[String]) -> Result<i32> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| Fault::new(Code::Usage, format!("run a command in node {name}"), "there is no command"))?;
    move_into(name)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", init::PATH).env("HOME", "/root").env("LANG", "C.UTF-8");
    // Some versions of ctr warn of cgroup v1 in every answer.
    command.env("CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS", "1");
    if let Some(term) = std::env::var_os("TERM") {
        command.env("TERM", term);
    }
    // SAFETY: between fork and exec the child makes one system call, which is allowed there.
    unsafe {
        command.pre_exec(|| nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(Into::into));
    }
    let mut child = command.spawn().attempt(|| format!("run {program} in node {name}"))?;
    for keyboard in [Signal::SIGINT, Signal::SIGQUIT] {
        // The command gets what is typed; this process waits for what it makes of it.
        // SAFETY: ignoring a signal installs no handler.
        let _ = unsafe { signal(keyboard, SigHandler::SigIgn) };
    }
    let status = child.wait().attempt(|| format!("wait for {program}"))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn move_into(name: &str) -> Result<()> {
    let cell = Cell::load(name)?;
    let first = Cell::running(name)?;
    let mut doors = Vec::new();
    for (kind, flag) in NAMESPACES {
        let path = format!("/proc/{}/ns/{kind}", first.pid);
        doors.push((*kind, *flag, File::open(&path).attempt(|| format!("open {path}"))?));
    }
    // The pid may have become another process's while the doors were opened.
    if !first.runs() {
        return Err(Fault::new(Code::State, format!("enter node {name}"), "it has just ended"));
    }
    cgroup::join(&cell.cgroups)?;
    for (kind, flag, door) in doors {
        setns(&door, flag)
            .map_err(|errno| Fault::io(format!("enter the {kind} namespace of node {name}"), &errno.into()))?;
    }
    Ok(())
}
