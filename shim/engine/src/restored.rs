//! What happens to a container while CRIU holds it, between being rebuilt and running.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use baton_criu::{Restore, Steps};
use baton_fault::{Code, Fault, Result};
use libcontainer::container::Container;
use libcontainer::hooks::run_hooks;
use nix::unistd::Pid;

use crate::bundle::Bundle;
use crate::cgroup::Cgroup;
use crate::container::chain;
use crate::restore::has_terminal;
use crate::{cgroup_namespace, confinement, console, credentials, device_nodes, kill, namespaces, process_limits};

/// A container that CRIU is rebuilding.
pub(crate) struct Rebuilding<'a> {
    pub(crate) bundle: &'a Bundle,
    pub(crate) cgroup: &'a Cgroup,
    pub(crate) container: &'a Container,
    /// CRIU's worker, which sits in the container's cgroup.
    pub(crate) worker: i32,
    /// Whether the cgroup is this container's: one that somebody else runs in is never touched.
    pub(crate) entered: bool,
    /// The first process, once it exists.
    pub(crate) init: Option<i32>,
    /// Where the master end of its terminal goes; here when nowhere.
    console: Option<&'a Path>,
    /// The master end, when it has come and went nowhere.
    pub(crate) master: Option<OwnedFd>,
    /// Whether it has come.
    terminal: bool,
}

impl<'a> Rebuilding<'a> {
    pub(crate) fn new(
        bundle: &'a Bundle,
        cgroup: &'a Cgroup,
        container: &'a Container,
        console: Option<&'a Path>,
    ) -> Rebuilding<'a> {
        let (worker, entered, init, master, terminal) = (0, false, None, None, false);
        Rebuilding { bundle, cgroup, container, worker, entered, init, console, master, terminal }
    }

    /// Has the tree rebuilt in the cgroup namespace that the live spec asks for.
    pub(crate) fn in_cgroup_namespace(&mut self, request: &mut Restore) -> Result<()> {
        request.cgroup_namespace = cgroup_namespace::asked_for(self.bundle, self.cgroup, &mut self.entered)?;
        Ok(())
    }

    /// Refuses a container that has no terminal where the live spec wants one.
    pub(crate) fn terminal_must_have_come(&self) -> Result<()> {
        if self.terminal || !has_terminal(self.bundle) {
            return Ok(());
        }
        Err(Fault::new(Code::RestoreState, "look for the restored terminal", "the saved container had none")
            .advise("create the container without a terminal"))
    }
}

impl Steps for Rebuilding<'_> {
    /// All that CRIU forks from now on, the restored tree, is born in the container's own cgroup, under the live
    /// spec's limits and device rules.
    fn worker_started(&mut self, worker: i32) -> Result<()> {
        self.worker = worker;
        let resources = self.bundle.spec.linux().as_ref().and_then(|linux| linux.resources().as_ref());
        self.cgroup.must_be_empty()?;
        self.entered = true;
        self.cgroup.enter(worker, resources)
    }

    /// Hooks that look into the namespaces from outside, as runc runs them here.
    fn namespaces_ready(&mut self, pid: i32) -> Result<()> {
        self.init = Some(pid);
        let Some(hooks) = self.bundle.spec.hooks() else { return Ok(()) };
        let state = Some(&self.container.state);
        for hooks in [hooks.prestart(), hooks.create_runtime()] {
            run_hooks(hooks.as_ref(), state, None, Some(Pid::from_raw(pid)), None)
                .map_err(|err| Fault::new(Code::Engine, "run hooks of the restored container", chain(&err)))?;
        }
        Ok(())
    }

    /// The terminal that was the container's, with a master end that nobody holds: runc's contract is that it goes to the
    /// console socket.
    fn terminal(&mut self, master: OwnedFd) -> Result<()> {
        if !has_terminal(self.bundle) {
            return Err(Fault::new(
                Code::RestoreState,
                "restore the terminal",
                "the live spec gives the container none",
            )
            .advise("create the container with a terminal"));
        }
        self.terminal = true;
        match self.console {
            Some(socket) => console::send(socket, &master),
            None => {
                self.master = Some(master);
                Ok(())
            }
        }
    }

    fn restored(&mut self, pid: i32) -> Result<()> {
        self.init = Some(pid);
        device_nodes::make_those_of(self.bundle, pid)?;
        namespaces::set_host_name(self.bundle, pid)
    }

    fn before_resume(&mut self) -> Result<()> {
        let Some(pid) = self.init else {
            return Err(Fault::new(Code::Criu, "restore", "CRIU named no first process"));
        };
        let tasks = self.tasks()?;
        let checked = namespaces::check(self.bundle, pid)
            .and_then(|()| confinement::check(self.bundle, pid))
            .and_then(|()| credentials::check(self.bundle, &tasks))
            .and_then(|()| process_limits::set(self.bundle, &tasks));
        checked.inspect_err(|_| {
            // CRIU cannot be stopped any more from letting them run: they must not live to see it.
            for task in tasks.iter().chain([&pid]) {
                let _ = kill::send(*task, libc::SIGKILL);
            }
        })
    }
}

impl Rebuilding<'_> {
    /// The processes in the cgroup without CRIU's own.
    fn tasks(&self) -> Result<BTreeSet<i32>> {
        let mut tasks = self.cgroup.processes()?;
        tasks.retain(|pid| *pid != self.worker && !is_child(*pid, self.worker));
        Ok(tasks)
    }
}

/// Whether `pid` is a child of `parent`: a helper of CRIU. The restored tree is ours, not CRIU's.
fn is_child(pid: i32, parent: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let fields = stat.rsplit_once(')').map(|(_, after)| after);
    fields.and_then(|after| after.split_ascii_whitespace().nth(1)?.parse().ok()) == Some(parent)
}
