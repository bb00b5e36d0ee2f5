//! `list`: all containers of a state folder.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use baton_fault::{Attempt, Result};

use crate::Engine;
use crate::state::{Report, report};

/// A line of `list`.
pub type Listed = Report;

impl Engine {
    /// All containers, by id. One that disappears meanwhile is left out.
    ///
    /// # Errors
    /// When the state folder cannot be read; one that does not exist is empty.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let what = || format!("list {}", self.root.display());
        let entries = match std::fs::read_dir(&self.root) {
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.attempt(what)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.attempt(what)?.file_name();
            if let Some(Ok(container)) = name.to_str().map(|id| self.load(id)) {
                found.push(Listed { owner: owner(&container.root), ..report(&container) });
            }
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(found)
    }
}

/// The name of the user whose state folder it is, or `#` and the number.
fn owner(folder: &Path) -> String {
    let Ok(uid) = std::fs::metadata(folder).map(|meta| meta.uid()) else { return String::new() };
    let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
    user.map_or_else(|| format!("#{uid}"), |user| user.name)
}
