//! `run`: create, start, wait, delete.

use baton_fault::Result;

use crate::attended::{self, Arrival, Watch};
use crate::bundle::Bundle;
use crate::{Create, Engine};

/// What `run` is told.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The container.
    pub create: Create,
    /// Do not wait for the end.
    pub detach: bool,
    /// Do not delete the container when it has ended.
    pub keep: bool,
}

impl Engine {
    /// Creates and starts a container; unless detached, waits for its end, deletes it and gives its exit status. Its
    /// terminal, if it has one, is then joined to ours.
    ///
    /// # Errors
    /// As [`Engine::create`], [`Engine::start`] and [`Engine::delete`].
    pub fn run(&self, id: &str, run: &Run) -> Result<Option<i32>> {
        let spec = Bundle::open(&run.create.bundle)?.spec;
        let terminal = spec.process().as_ref().and_then(|process| process.terminal()).unwrap_or(false);
        attended::check(terminal, run.detach, run.create.console_socket.as_deref())?;
        let arrival = if terminal && !run.detach { Some(Arrival::listen()?) } else { None };
        let mut create = run.create.clone();
        if let Some(arrival) = &arrival {
            create.console_socket = Some(arrival.path());
        }
        self.create(id, &create)?;
        let begun = || {
            let master = arrival.map(Arrival::take).transpose()?;
            // Known before it begins: a program that has ended at once has no number any more.
            let pid = self.state(id)?.pid;
            self.start(id)?;
            Ok((pid, master))
        };
        let (pid, master) = begun().inspect_err(|_| {
            // Best effort: the first failure is the one to tell.
            let _ = self.delete(id, true);
        })?;
        if run.detach {
            return Ok(None);
        }
        let code = Watch::begin()?.wait(pid, master)?;
        if !run.keep {
            self.delete_ended(id)?;
        }
        Ok(Some(code))
    }

    /// Deletes a container whose end we have waited for, unless somebody else has: a checkpoint that was to end it.
    pub(crate) fn delete_ended(&self, id: &str) -> Result<()> {
        match self.delete(id, true) {
            Err(_) if !self.folder(id)?.exists() => Ok(()),
            deleted => deleted,
        }
    }
}
