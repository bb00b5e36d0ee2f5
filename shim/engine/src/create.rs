//! `create`: everything up to the program itself, which waits for `start`.

use std::path::PathBuf;

use baton_fault::Result;
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::syscall::syscall::SyscallType;
use oci_spec::runtime::LinuxNamespaceType;

use crate::Engine;
use crate::bundle::Bundle;
use crate::container::{engine, record_start, write_pid_file};
use crate::workload::Workload;
use crate::{cgroup_mount, loopback};

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

impl Engine {
    /// Creates a container; its program inherits our standard streams and waits for `start`.
    ///
    /// # Errors
    /// `EXISTS`, `BUNDLE`, `FILE`, or `ENGINE` with what libcontainer says; nothing is left of the container then.
    pub fn create(&self, id: &str, create: &Create) -> Result<()> {
        let folder = self.folder(id)?;
        let bundle = Bundle::open(&create.bundle)?;
        let what = format!("create container {id}");
        let failed = |err| engine(&what, &err);
        let container = ContainerBuilder::new(id.to_owned(), SyscallType::Linux)
            .with_executor(Workload::init())
            .with_root_path(self.root.clone())
            .map_err(failed)?
            .with_console_socket(create.console_socket.clone())
            .with_preserved_fds(create.preserve_fds)
            .as_init(&bundle.path)
            .with_systemd(self.systemd_cgroup)
            .with_no_pivot(create.no_pivot)
            .build()
            .map_err(failed)?;
        let pid = container.pid().map_or(0, |pid| pid.as_raw());
        let finish = || -> Result<()> {
            record_start(&folder, pid)?;
            cgroup_mount::protect(&bundle, pid)?;
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
