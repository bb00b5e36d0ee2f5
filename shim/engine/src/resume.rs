//! `resume`: a paused container goes on.

use baton_fault::{Code, Fault, Result};
use libcontainer::container::ContainerStatus;

use crate::Engine;
use crate::cgroup::Cgroup;
use crate::state::word;
use crate::state_file;

impl Engine {
    /// Thaws a paused container.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STATE` when it is not paused, `ENGINE`.
    pub fn resume(&self, id: &str) -> Result<()> {
        let mut container = self.load(id)?;
        let what = format!("resume container {id}");
        if container.status() != ContainerStatus::Paused {
            return Err(Fault::new(Code::State, what, format_args!("it is {}, not paused", word(container.status()))));
        }
        Cgroup::of(&container)?.thaw().map_err(|fault| fault.during(what))?;
        container.set_status(ContainerStatus::Running);
        state_file::save(&container)
    }
}
