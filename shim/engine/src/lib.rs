//! One container: created, started, signalled, paused and deleted by libcontainer; saved and rebuilt by CRIU.
//!
//! One file for each verb. libcontainer forks, so a program that uses this crate has one thread and lives for one
//! verb; the shim runs `baton` instead of calling it.
//!
//! A container's state lies in `<root>/<id>` in libcontainer's own form, whoever made the container, so that a
//! restored one is an ordinary one to every verb. Beside it lies `init.start`, the start time of the first
//! process: with it a recycled process number is never taken for the container.

mod attended;
mod birth;
mod bundle;
mod cgroup;
mod cgroup_namespace;
mod checkpoint;
mod confinement;
mod console;
mod container;
mod create;
mod credentials;
mod culprit;
mod delete;
mod descriptors;
mod device_filter;
mod device_nodes;
mod events;
mod exec;
mod external;
mod features;
mod image_folder;
mod keyring;
mod kill;
mod list;
mod loopback;
mod mount_finish;
mod mount_points;
mod mount_table;
mod namespaces;
mod pause;
mod proc_mounts;
mod process;
mod process_limits;
mod ps;
mod resources;
mod restore;
mod restored;
mod resume;
mod run;
mod seccomp;
mod sources;
mod stand_in;
mod start;
mod state;
mod state_file;
mod state_folder;
mod stats;
mod update;
mod workload;

use std::path::{Path, PathBuf};

pub use baton_criu::{PageServer, TcpMode};
pub use checkpoint::Checkpoint;
pub use create::Create;
pub use exec::Exec;
pub use features::features;
pub use kill::Signal;
pub use list::Listed;
pub use resources::{BlockIo, Cpu, Memory, Pids, Resources, Throttle};
pub use restore::Restore;
pub use run::Run;
pub use state::Report;

/// Where the engine keeps the state of its containers unless told otherwise.
pub const ROOT: &str = "/run/baton/engine";

/// The containers of one state folder.
#[derive(Clone, Debug)]
pub struct Engine {
    root: PathBuf,
    systemd_cgroup: bool,
}

impl Engine {
    /// The containers whose state lies in `root`.
    pub fn new(root: impl Into<PathBuf>) -> Engine {
        Engine { root: root.into(), systemd_cgroup: false }
    }

    /// Whether systemd makes the cgroups.
    #[must_use]
    pub fn with_systemd_cgroup(mut self, yes: bool) -> Engine {
        self.systemd_cgroup = yes;
        self
    }

    /// The state folder.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
