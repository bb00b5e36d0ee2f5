//! `start`: the created container's program begins.

use baton_fault::{Code, Fault, Result};
use libcontainer::container::ContainerStatus;
use libcontainer::error::LibcontainerError;
use libcontainer::hooks::run_hooks;
use libcontainer::notify_socket::{NOTIFY_FILE, NotifySocket};

use crate::Engine;
use crate::container::engine;
use crate::state_file;

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
        let failed = |err: LibcontainerError| engine(format_args!("start container {id}"), &err);
        let config = container.spec().map_err(failed)?;
        let mut wait = NotifySocket::new(container.root.join(NOTIFY_FILE));
        wait.notify_container_start().map_err(|err| failed(err.into()))?;
        container.set_status(ContainerStatus::Running);
        state_file::save(&container)?;
        let hooks = config.hooks.as_ref().and_then(|hooks| hooks.poststart().as_ref());
        run_hooks(hooks, Some(&container.state), Some(&container.root), None, None).map_err(|err| failed(err.into()))
    }
}
