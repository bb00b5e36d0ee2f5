//! `delete`: nothing is left of a container but its bundle.

use baton_fault::{Code, Fault, Result};
use libcontainer::container::{Container, ContainerStatus};
use libcontainer::hooks::run_hooks;

use crate::Engine;
use crate::cgroup::Cgroup;
use crate::container::{chain, engine};
use crate::stand_in::StandIn;
use crate::state::word;

impl Engine {
    /// Deletes a container that has ended or never started; with `force` also one that runs, and it is no fault
    /// when there is none.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STATE` when it runs, `DEADLINE` when a process in it does not die.
    pub fn delete(&self, id: &str, force: bool) -> Result<()> {
        StandIn::forget(&self.root, id);
        let mut container = match self.load(id) {
            Err(fault) if fault.code == Code::NotFound && force => return self.forget(id),
            loaded => loaded?,
        };
        let what = format!("delete container {id}");
        match container.status() {
            ContainerStatus::Stopped | ContainerStatus::Created => {}
            _ if force => {}
            status => {
                return Err(Fault::new(Code::State, what, format_args!("it is {}", word(status)))
                    .advise("kill it first or pass --force"));
            }
        }
        // A container whose creation broke off early has no record of its cgroup, and no process.
        if let Ok(cgroup) = Cgroup::of(&container)
            && !cgroup.remove_empty()
        {
            cgroup.kill_all()?;
            cgroup.remove()?;
        }
        container.set_status(ContainerStatus::Stopped);
        container.state.pid = None;
        // What else the kernel has of it, libcontainer has made.
        if container.intel_rdt_dir().is_some() || container.intel_rdt_monitoring_dir().is_some() || container.systemd()
        {
            container.save().map_err(|err| engine(&what, &err))?;
            return container.delete(true).map_err(|err| engine(&what, &err));
        }
        run_last_hooks(&container);
        self.forget(id)
    }

    /// Removes a state folder in which there is no state.
    fn forget(&self, id: &str) -> Result<()> {
        match std::fs::remove_dir_all(self.folder(id)?) {
            Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                Err(Fault::io(format_args!("delete container {id}"), &err))
            }
            _ => Ok(()),
        }
    }
}

/// Hooks for after the end. As with runc, one that fails keeps nothing from being deleted.
fn run_last_hooks(container: &Container) {
    let Ok(config) = container.spec() else { return };
    let Some(hooks) = config.hooks else { return };
    if let Err(err) = run_hooks(hooks.poststop().as_ref(), Some(&container.state), None, None, None) {
        eprintln!("baton: hooks after the end of container {}: {}", container.id(), chain(&err));
    }
}
