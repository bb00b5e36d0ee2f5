//! `delete`: nothing is left of a container but its bundle.

use baton_fault::{Code, Fault, Result};
use libcontainer::config::YoukiConfig;
use libcontainer::container::{Container, ContainerStatus};
use libcontainer::hooks::run_hooks;

use crate::Engine;
use crate::cgroup::Cgroup;
use crate::container::{chain, engine};
use crate::stand_in::StandIn;
use crate::state::word;
use crate::state_file;

/// Where libcontainer writes down what it needs of the spec.
const CONFIG: &str = "youki_config.json";

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
            // What is on record cannot be read, but where its processes are is on record apart.
            Err(fault) if force => {
                return self.end_unreadable(id).and_then(|()| self.forget(id)).map_err(|_| fault);
            }
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
        if let Ok(cgroup) = Cgroup::of(&container) {
            clear(&cgroup)?;
        }
        container.set_status(ContainerStatus::Stopped);
        container.state.pid = None;
        // What else the kernel has of it, libcontainer has made.
        if container.intel_rdt_dir().is_some() || container.intel_rdt_monitoring_dir().is_some() || container.systemd()
        {
            state_file::save(&container)?;
            return container.delete(true).map_err(|err| engine(&what, &err));
        }
        run_last_hooks(&container);
        self.forget(id)
    }

    /// Ends what runs of a container whose state cannot be read, and removes its cgroup.
    fn end_unreadable(&self, id: &str) -> Result<()> {
        let config = match YoukiConfig::load(self.folder(id)?) {
            Ok(config) => config,
            // It broke off before anything ran.
            Err(_) if !self.folder(id)?.join(CONFIG).exists() => return Ok(()),
            Err(err) => return Err(Fault::new(Code::Engine, format_args!("find the cgroup of {id}"), err)),
        };
        clear(&Cgroup::open(&config.cgroup_path, id, self.systemd_cgroup)?)
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

/// Ends whatever runs in a cgroup, and removes it.
fn clear(cgroup: &Cgroup) -> Result<()> {
    if cgroup.remove_empty() {
        return Ok(());
    }
    cgroup.kill_all()?;
    cgroup.remove()
}

/// Hooks for after the end. As with runc, one that fails keeps nothing from being deleted.
fn run_last_hooks(container: &Container) {
    let Ok(config) = container.spec() else { return };
    let Some(hooks) = config.hooks else { return };
    if let Err(err) = run_hooks(hooks.poststop().as_ref(), Some(&container.state), None, None, None) {
        eprintln!("baton: hooks after the end of container {}: {}", container.id(), chain(&err));
    }
}
