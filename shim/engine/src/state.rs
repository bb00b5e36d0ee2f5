//! `state`: what a container is now, in runc's form.

use std::collections::HashMap;
use std::path::PathBuf;

use baton_fault::Result;
use libcontainer::container::{Container, ContainerStatus};
use serde::Serialize;

use crate::Engine;
use crate::bundle::Bundle;

/// The state of a container.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version of the runtime specification.
    pub oci_version: String,
    /// Id.
    pub id: String,
    /// First process as this host numbers it; 0 when it has ended.
    pub pid: i32,
    /// `creating`, `created`, `running`, `paused`, `stopped`.
    pub status: &'static str,
    /// Bundle.
    pub bundle: PathBuf,
    /// Root filesystem on this host; empty when the bundle is gone.
    pub rootfs: PathBuf,
    /// Time of creation, RFC 3339.
    pub created: String,
    /// Annotations of the spec.
    #[serde(skip_serializing_if = "HashMap::is_empty")]
    pub annotations: HashMap<String, String>,
    /// Who created it.
    pub owner: String,
}

impl Engine {
    /// The state of a container.
    ///
    /// # Errors
    /// `NOT_FOUND`, `ENGINE` when its state file does not parse.
    pub fn state(&self, id: &str) -> Result<Report> {
        Ok(report(&self.load(id)?))
    }
}

pub(crate) fn report(container: &Container) -> Report {
    let status = container.status();
    let bundle = Bundle::open(container.bundle()).ok();
    let of_state = || container.state.oci_version.clone();
    Report {
        oci_version: bundle.as_ref().map_or_else(of_state, |bundle| bundle.spec.version().clone()),
        id: container.id().to_owned(),
        pid: match status {
            ContainerStatus::Stopped => 0,
            _ => container.pid().map_or(0, |pid| pid.as_raw()),
        },
        status: word(status),
        bundle: container.bundle().clone(),
        rootfs: bundle.map(|bundle| bundle.rootfs).unwrap_or_default(),
        created: container.created().map(|time| time.to_rfc3339().replace("+00:00", "Z")).unwrap_or_default(),
        annotations: container.state.annotations.clone().unwrap_or_default(),
        owner: String::new(),
    }
}

/// The specification's word for a status.
pub(crate) fn word(status: ContainerStatus) -> &'static str {
    match status {
        ContainerStatus::Creating => "creating",
        ContainerStatus::Created => "created",
        ContainerStatus::Running => "running",
        ContainerStatus::Paused => "paused",
        ContainerStatus::Stopped => "stopped",
    }
}
