//! `checkpoint`: the processes of a container into a folder of CRIU images.

use std::fs;
use std::path::{Path, PathBuf};

use baton_criu::{Common, Criu, Dump, PageServer, TcpMode};
use baton_fault::{Attempt, Code, Fault, Result};
use libcontainer::container::ContainerStatus;

use crate::bundle::Bundle;
use crate::cgroup::Cgroup;
use crate::image_folder::ImageFolder;
use crate::state::word;
use crate::{Engine, descriptors, external};

/// CRIU's log of a failed checkpoint, in the bundle.
const KEPT_LOG: &str = "criu-dump.log";

/// What `checkpoint` is told.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    /// Folder for the images; made when missing. It stays flat.
    pub image_path: PathBuf,
    /// Folder for CRIU's log and scratch files; the image folder when not given.
    pub work_path: Option<PathBuf>,
    /// Images of an earlier checkpoint, as a path relative to the image folder.
    pub parent_path: Option<PathBuf>,
    /// The container goes on (or stays frozen) afterwards; else it is ended and forgotten, as by runc.
    pub leave_running: bool,
    /// Established TCP connections.
    pub tcp: TcpMode,
    /// TCP connections in the making are left out.
    pub tcp_skip_in_flight: bool,
    /// Unix sockets with a peer outside.
    pub ext_unix_sk: bool,
    /// The session leader is outside.
    pub shell_job: bool,
    /// File locks.
    pub file_locks: bool,
    /// Memory goes to a page server.
    pub page_server: Option<PageServer>,
    /// Only memory is saved, ahead of a checkpoint that names this one as its parent; the container goes on.
    pub pre_dump: bool,
    /// Memory that is saved again is removed from the earlier images.
    pub auto_dedup: bool,
}

impl Engine {
    /// Saves the processes of a running or paused container. When it fails the container goes on as before, no part of
    /// an image is left, and CRIU's log lies in the bundle as `criu-dump.log`.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STATE`, `CRIU_VERSION`, `CRIU` with the last real error of CRIU's log, `NO_SPACE`.
    pub fn checkpoint(&self, id: &str, checkpoint: &Checkpoint) -> Result<()> {
        let container = self.load(id)?;
        let status = container.status();
        let pid = match (status, container.pid()) {
            (ContainerStatus::Running | ContainerStatus::Paused, Some(pid)) => pid.as_raw(),
            _ => {
                return Err(Fault::new(
                    Code::State,
                    format_args!("checkpoint container {id}"),
                    format_args!("it is {}, neither running nor paused", word(status)),
                ));
            }
        };
        let criu = Criu::find()?;
        let bundle = Bundle::open(container.bundle())?;
        let cgroup = Cgroup::of(&container)?;
        let work = checkpoint.work_path.as_ref().unwrap_or(&checkpoint.image_path);
        let images = ImageFolder::make(&checkpoint.image_path)?;
        make_private(work)?;
        if let Some(parent) = &checkpoint.parent_path {
            check_parent(&checkpoint.image_path, parent)?;
        }
        let leave_running = checkpoint.leave_running || checkpoint.pre_dump;
        let dump = Dump {
            common: Common {
                images: checkpoint.image_path.clone(),
                work: work.clone(),
                root: bundle.rootfs.clone(),
                externals: external::when_saving(&bundle, &cgroup, pid)?,
                tcp: checkpoint.tcp,
                ext_unix_sk: checkpoint.ext_unix_sk,
                shell_job: checkpoint.shell_job,
                file_locks: checkpoint.file_locks,
                empty_net: false,
            },
            pid,
            leave_running,
            freezer: cgroup.freezer().map(Path::to_owned),
            tcp_skip_in_flight: checkpoint.tcp_skip_in_flight,
            parent: checkpoint.parent_path.clone(),
            memory_only: checkpoint.pre_dump,
            auto_dedup: checkpoint.auto_dedup,
            page_server: checkpoint.page_server.clone(),
        };
        let dumped = descriptors::save(pid, &checkpoint.image_path)
            .and_then(|()| criu.dump(&dump))
            .map_err(|fault| fault.during(format_args!("checkpoint container {id}")));
        if dumped.is_err() {
            // The log of a log that cannot be kept is where it was.
            let _ = fs::copy(work.join(Dump::LOG), bundle.path.join(KEPT_LOG));
            if status == ContainerStatus::Running {
                // A CRIU that was killed has thawed nobody.
                let _ = cgroup.thaw();
            }
            images.remove_what_is_new();
        }
        dumped?;
        if leave_running {
            return Ok(());
        }
        if status == ContainerStatus::Paused {
            // Frozen tasks that CRIU has killed end when they are thawed.
            cgroup.thaw()?;
        }
        self.delete(id, true)
    }
}

/// Earlier images are named relative to the new ones, which keeps both movable together.
fn check_parent(images: &Path, parent: &Path) -> Result<()> {
    let what = || format!("use the earlier images {}", parent.display());
    if parent.is_absolute() {
        return Err(Fault::new(Code::Usage, what(), "--parent-path must be relative")
            .advise("name them relative to the image folder"));
    }
    if !fs::metadata(images.join(parent)).attempt(what)?.is_dir() {
        return Err(
            Fault::new(Code::Usage, what(), "it is no folder").advise("name the folder of an earlier checkpoint")
        );
    }
    Ok(())
}

/// Makes a folder that only root can read: it is to hold the memory of processes.
pub(crate) fn make_private(folder: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).attempt(|| format!("make {}", folder.display()))
}
