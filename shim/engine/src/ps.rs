//! `ps`: the processes of a container.

use baton_fault::Result;

use crate::Engine;
use crate::cgroup::Cgroup;

impl Engine {
    /// All processes of a container, as this host numbers them.
    ///
    /// # Errors
    /// `NOT_FOUND`, `SYSTEM` when the cgroup cannot be read.
    pub fn ps(&self, id: &str) -> Result<Vec<i32>> {
        let container = self.load(id)?;
        Ok(Cgroup::of(&container)?.processes()?.into_iter().collect())
    }
}
