//! `pause`: a container stands still.

use baton_fault::{Code, Fault, Result};
use libcontainer::container::ContainerStatus;

use crate::Engine;
use crate::cgroup::Cgroup;
use crate::state::word;
use crate::state_file;

impl Engine {
    /// Freezes a running container.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STATE` when it does not run, `ENGINE`.
    pub fn pause(&self, id: &str) -> Result<()> {
        let mut container = self.load(id)?;
        let what = format!("pause container {id}");
        if container.status() != ContainerStatus::Running {
            return Err(Fault::new(Code::State, what, format_args!("it is {}, not running", word(container.status()))));
        }
        Cgroup::of(&container)?.freeze().map_err(|fault| fault.during(what))?;
        container.set_status(ContainerStatus::Paused);
        state_file::save(&container)
    }
}
