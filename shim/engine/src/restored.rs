//! What happens to a container while CRIU holds it, between being rebuilt and running.

use std::collections::BTreeSet;
use std::fs;

use baton_criu::Steps;
use baton_fault::{Code, Fault, Result};
use libcontainer::container::Container;
use libcontainer::hooks::run_hooks;
use nix::unistd::Pid;

use crate::bundle::Bundle;
use crate::cgroup::Cgroup;
use crate::container::chain;
use crate::{confinement, credentials, device_nodes, kill, namespaces, process_limits};

/// A container that CRIU is rebuilding.
pub(crate) struct Rebuilding<'a> {
    pub(crate) bundle: &'a Bundle,
    pub(crate) cgroup: &'a Cgroup,
    pub(crate) container: &'a Container,
    /// CRIU's worker, which sits in the container's cgroup.
    pub(crate) worker: i32,
    /// The first process, once it exists.
    pub(crate) init: Option<i32>,
}

impl Steps for Rebuilding<'_> {
    /// All that CRIU forks from now on, the restored tree, is born in the container's own cgroup, under the live
    /// spec's limits and device rules.
    fn worker_started(&mut self, worker: i32) -> Result<()> {
        self.worker = worker;
        let resources = self.bundle.spec.linux().as_ref().and_then(|linux| linux.resources().as_ref());
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
