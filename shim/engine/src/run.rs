//! `run`: create, start, wait, delete.

use baton_fault::Result;

use crate::process;
use crate::{Create, Engine};

impl Engine {
    /// Creates and starts a container; unless `detach`, waits for its end, deletes it and gives its exit status.
    ///
    /// # Errors
    /// As [`Engine::create`], [`Engine::start`] and [`Engine::delete`].
    pub fn run(&self, id: &str, create: &Create, detach: bool) -> Result<Option<i32>> {
        self.create(id, create)?;
        let started = self.start(id).and_then(|()| self.state(id));
        let pid = started.inspect_err(|_| {
            // Best effort: the first failure is the one to tell.
            let _ = self.delete(id, true);
        })?;
        if detach {
            return Ok(None);
        }
        let code = if pid.pid == 0 { 0 } else { process::wait(pid.pid)? };
        self.delete(id, true)?;
        Ok(Some(code))
    }
}
