//! `start`: the created container's program begins.

use baton_fault::{Code, Fault, Result};
use libcontainer::container::ContainerStatus;

use crate::Engine;
use crate::container::engine;

impl Engine {
    /// Starts the program of a created container.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STATE` when it is not a created one, `ENGINE`.
    pub fn start(&self, id: &str) -> Result<()> {
        let mut container = self.load(id)?;
        if container.status() != ContainerStatus::Created {
            return Err(Fault::new(
                Code::State,
                format_args!("start container {id}"),
                format_args!("it is {}, not created", crate::state::word(container.status())),
            ));
        }
        container.start().map_err(|err| engine(format_args!("start container {id}"), &err))
    }
}
