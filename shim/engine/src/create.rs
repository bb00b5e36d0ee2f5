//! `create`: everything up to the program itself, which waits for `start`.

use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Result};
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::syscall::syscall::SyscallType;
use oci_spec::runtime::LinuxNamespaceType;

use crate::Engine;
use crate::bundle::Bundle;
use crate::cgroup::Cgroup;
use crate::container::{engine, record_start, write_pid_file};
use crate::rooted::Rooted;
use crate::stand_in::StandIn;
use crate::workload::Workload;
use crate::{loopback, mount_finish};

/// What `create` is told.
#[derive(Clone, Debug, Default)]
pub struct Create {
    /// The bundle.
    pub bundle: PathBuf,
    /// Unix socket to which the terminal's master end is sent.
    pub console_socket: Option<PathBuf>,
    /// File for the process number of the container's first process.
    pub pid_file: Option<PathBuf>,
    /// Do not pivot into the root filesystem.
    pub no_pivot: bool,
    /// Descriptors from 3 on that the program inherits.
    pub preserve_fds: i32,
}

/// Makes the working folder that the spec names, where the image lacks it, as runc does. Below a mount it is the
/// mount's business.
fn make_working_folder(bundle: &Bundle) -> Result<()> {
    let Some(cwd) = bundle.spec.process().as_ref().map(|process| process.cwd().clone()) else { return Ok(()) };
    let mounts = bundle.spec.mounts().iter().flatten();
    if mounts.map(|mount| mount.destination()).any(|mount| mount != Path::new("/") && cwd.starts_with(mount)) {
        return Ok(());
    }
    let what = || format!("make the working folder {}", cwd.display());
    let root = Rooted::open(&bundle.rootfs).attempt(what)?;
    let inside = cwd.strip_prefix("/").unwrap_or(&cwd);
    if root.folder(inside).is_ok() {
        return Ok(());
    }
    match root.make_folders(inside) {
        // A root filesystem that nobody may write has to bring its folder; links in the way lead where the image says.
        Err(err) if [Some(nix::libc::EROFS), Some(nix::libc::ELOOP)].contains(&err.raw_os_error()) => Ok(()),
        made => made
            .map(drop)
            .attempt(what)
            .map_err(|fault| fault.advise("name a working folder that can be made in the image")),
    }
}

impl Engine {
    /// Creates a container; its program inherits our standard streams and waits for `start`.
    ///
    /// # Errors
    /// `EXISTS`, `BUNDLE`, `FILE`, or `ENGINE` with what libcontainer says; nothing is left of the container then.
    pub fn create(&self, id: &str, create: &Create) -> Result<()> {
        let folder = self.folder(id)?;
        let bundle = Bundle::open(&create.bundle)?;
        let what = format!("create container {id}");
        // The hook has no other way to the user: its standard error is the container's.
        let stand_in = StandIn::of(&bundle, &self.root, id, self.systemd_cgroup)?;
        let shown = stand_in.as_ref().map_or(bundle.path.as_path(), StandIn::path);
        let failed = |err| baton_hook::fault(shown).unwrap_or_else(|| engine(&what, &err));
        make_working_folder(&bundle)?;
        let mut container = ContainerBuilder::new(id.to_owned(), SyscallType::Linux)
            .with_executor(Workload::init())
            .with_root_path(self.root.clone())
            .map_err(failed)?
            .with_console_socket(create.console_socket.clone())
            .with_preserved_fds(create.preserve_fds)
            .as_init(shown)
            .with_systemd(self.systemd_cgroup)
            .with_no_pivot(create.no_pivot)
            .build()
            .map_err(failed)?;
        let pid = container.pid().map_or(0, |pid| pid.as_raw());
        let mut finish = || -> Result<()> {
            if stand_in.is_some() {
                container.state.bundle = bundle.path.clone();
                container.save().map_err(|err| engine(&what, &err))?;
            }
            record_start(&folder, pid)?;
            let resources = bundle.spec.linux().as_ref().and_then(|linux| linux.resources().as_ref());
            Cgroup::of(&container)?.restrict_devices(resources)?;
            mount_finish::finish(&bundle, pid)?;
            if bundle.namespace(LinuxNamespaceType::Network) == Some(None) {
                loopback::bring_up(pid)?;
            }
            if let Some(file) = &create.pid_file {
                write_pid_file(file, pid)?;
            }
            Ok(())
        };
        finish().inspect_err(|_| {
            // Best effort: the first failure is the one to tell.
            let _ = self.delete(id, true);
        })
    }
}
