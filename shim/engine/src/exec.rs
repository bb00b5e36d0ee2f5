//! `exec`: one more program in a running container.

use std::collections::HashMap;
use std::path::PathBuf;

use baton_fault::Result;
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::syscall::syscall::SyscallType;

use crate::bundle::Bundle;
use crate::container::{engine, write_pid_file};
use crate::workload::Workload;
use crate::{Engine, process};

/// What `exec` is told.
#[derive(Clone, Debug, Default)]
pub struct Exec {
    /// A file with the process as the runtime specification describes it; then the fields below it are not used.
    pub process: Option<PathBuf>,
    /// Program and arguments.
    pub args: Vec<String>,
    /// Working folder.
    pub cwd: Option<PathBuf>,
    /// Variables, in place of or beside the container's.
    pub env: HashMap<String, String>,
    /// User and group.
    pub user: Option<(u32, Option<u32>)>,
    /// Further groups.
    pub additional_gids: Vec<u32>,
    /// Further capabilities.
    pub capabilities: Vec<String>,
    /// The program can gain no privileges.
    pub no_new_privs: bool,
    /// File for the process number.
    pub pid_file: Option<PathBuf>,
    /// Unix socket to which the terminal's master end is sent.
    pub console_socket: Option<PathBuf>,
    /// Do not wait for the end.
    pub detach: bool,
    /// Descriptors from 3 on that the program inherits.
    pub preserve_fds: i32,
    /// Also in a paused container; the program runs when it is resumed.
    pub ignore_paused: bool,
}

impl Engine {
    /// Runs a program in a container with our standard streams; unless detached, waits and gives its exit status.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STATE` when the container does not run, `ENGINE` when the program cannot be started.
    pub fn exec(&self, id: &str, exec: &Exec) -> Result<Option<i32>> {
        let container = self.load(id)?;
        let bundle = Bundle::open(container.bundle())?;
        let what = format!("exec in container {id}");
        let failed = |err| engine(&what, &err);
        let pid = ContainerBuilder::new(id.to_owned(), SyscallType::Linux)
            .with_executor(Workload::tenant(&bundle.spec))
            .with_root_path(self.root.clone())
            .map_err(failed)?
            .with_console_socket(exec.console_socket.clone())
            .with_preserved_fds(exec.preserve_fds)
            .as_tenant()
            .with_process(exec.process.clone())
            .with_container_args(exec.args.clone())
            .with_cwd(exec.cwd.clone())
            .with_env(exec.env.clone())
            .with_user(exec.user.map(|(uid, _)| uid))
            .with_group(exec.user.and_then(|(_, gid)| gid))
            .with_additional_gids(exec.additional_gids.clone())
            .with_capabilities(exec.capabilities.clone())
            .with_no_new_privs(exec.no_new_privs)
            .with_detach(exec.detach)
            .with_ignore_paused(exec.ignore_paused)
            .build()
            .map_err(failed)?;
        if let Some(file) = &exec.pid_file {
            write_pid_file(file, pid.as_raw())?;
        }
        if exec.detach {
            return Ok(None);
        }
        process::wait(pid.as_raw()).map(Some)
    }
}
