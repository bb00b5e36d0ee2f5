//! `delete`: nothing is left of a container but its bundle.

use baton_fault::{Code, Fault, Result};
use libcontainer::container::ContainerStatus;

use crate::Engine;
use crate::cgroup::Cgroup;
use crate::container::engine;
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
        if let Ok(cgroup) = Cgroup::of(&container) {
            cgroup.kill_all()?;
            cgroup.remove()?;
        }
        container.set_status(ContainerStatus::Stopped);
        container.state.pid = None;
        container.save().map_err(|err| engine(&what, &err))?;
        container.delete(true).map_err(|err| engine(&what, &err))
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
