//! What a save and a restore need of the engine that runs a container.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use baton_fault::Result;

/// Where and how CRIU writes the images of a container. Locks of files are always saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Folder for the images, empty, flat afterwards.
    pub images: PathBuf,
    /// Folder for CRIU's log and statistics.
    pub work: PathBuf,
    /// Whether the container lives on after it.
    pub leave_running: bool,
    /// Whether established TCP connections are saved.
    pub open_tcp: bool,
    /// Whether stream sockets connected to the outside are allowed.
    pub external_unix_sockets: bool,
    /// Whether a terminal that is not the container's own is allowed.
    pub terminal: bool,
    /// Namespaces that a restore is to make empty.
    pub empty_namespaces: Vec<String>,
    /// How cgroups are saved, in CRIU's words; none for the engine's own way.
    pub cgroups_mode: Option<String>,
}

/// One container, as a save sees its engine.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Freezes every process.
    async fn pause(&self) -> Result<()>;
    /// Thaws every process.
    async fn resume(&self) -> Result<()>;
    /// Sends SIGKILL to every process; frozen ones end when thawed.
    async fn kill_all(&self) -> Result<()>;
    /// Has CRIU write the images. A frozen container stays frozen, a running one goes on, unless it is not to
    /// be left running. When this returns, also after an overrun of `limit`, nothing touches the container any more.
    async fn dump(&self, dump: &Dump, limit: Duration) -> Result<()>;
}
