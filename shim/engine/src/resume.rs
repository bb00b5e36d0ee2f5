//! `resume`: a paused container goes on.

use baton_fault::{Code, Fault, Result};
use libcontainer::container::ContainerStatus;

use crate::Engine;
use crate::container::engine;
use crate::state::word;

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
        container.resume().map_err(|err| engine(what, &err))
    }
}
