//! The state folder of a container that is being made: it goes again unless the container comes to be.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use baton_fault::{Attempt, Code, Fault, Result};
use libcontainer::config::YoukiConfig;
use libcontainer::container::{Container, ContainerStatus};
use libcontainer::error::LibcontainerError;
use oci_spec::runtime::Spec;

use crate::bundle::Bundle;
use crate::container::engine;
use crate::state_file;

/// A state folder in the making.
pub(crate) struct StateFolder {
    /// Where it is.
    pub(crate) path: PathBuf,
    kept: bool,
}

impl StateFolder {
    /// Makes the folder of a container that does not exist yet.
    ///
    /// # Errors
    /// `EXISTS` when there is a container of that id.
    pub(crate) fn make(path: PathBuf, id: &str) -> Result<StateFolder> {
        if let Some(root) = path.parent() {
            fs::create_dir_all(root).attempt(|| format!("make {}", root.display()))?;
        }
        match fs::create_dir(&path) {
            Err(err) if err.kind() == ErrorKind::AlreadyExists => {
                Err(Fault::new(Code::Exists, format_args!("create container {id}"), "container already exists")
                    .advise("use another id, or delete the container of that id"))
            }
            made => made.attempt(|| format!("make {}", path.display())).map(|()| StateFolder { path, kept: false }),
        }
    }

    /// Writes down that the container is being made.
    pub(crate) fn begin(&self, id: &str, bundle: &Bundle, spec: &Spec, systemd_cgroup: bool) -> Result<Container> {
        let failed = |err: LibcontainerError| engine(format_args!("create container {id}"), &err);
        let mut container =
            Container::new(id, ContainerStatus::Creating, None, &bundle.path, &self.path).map_err(failed)?;
        container.set_systemd(systemd_cgroup).set_annotations(spec.annotations().clone());
        // First what says where its cgroup is: without a state there is no container, and this is harmless.
        let config = YoukiConfig::from_spec(spec, id).map_err(|err| failed(err.into()))?;
        config.save(&self.path).map_err(|err| failed(err.into()))?;
        state_file::save(&container)?;
        Ok(container)
    }

    /// The container exists: so does its folder from now on.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for StateFolder {
    fn drop(&mut self) {
        if !self.kept {
            // Best effort: the failure that brought us here is the one to tell.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
