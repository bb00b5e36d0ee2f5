//! `exec`: one more program in a running container.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::syscall::syscall::SyscallType;
use oci_spec::runtime::{Capabilities, Capability, LinuxCapabilities, Process, Spec};

use crate::bundle::Bundle;
use crate::container::{engine, write_pid_file};
use crate::workload::Workload;
use crate::{Engine, process};

/// Largest process description read, in bytes.
const PROCESS_MAX: u64 = 4 << 20;

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
    /// The program gets a terminal, whose master end goes to the socket.
    pub tty: bool,
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
        let mut process = match &exec.process {
            Some(file) => read(file)?,
            None => asked_for(&bundle.spec, exec)?,
        };
        let workload = Workload::tenant(&bundle.spec, &mut process);
        // libcontainer takes a whole process from a file only.
        let file = ProcessFile::write(&container.root, &process)?;
        let what = format!("exec in container {id}");
        let failed = |err| engine(&what, &err);
        let pid = ContainerBuilder::new(id.to_owned(), SyscallType::Linux)
            .with_executor(workload)
            .with_root_path(self.root.clone())
            .map_err(failed)?
            .with_console_socket(exec.console_socket.clone())
            .with_preserved_fds(exec.preserve_fds)
            .as_tenant()
            .with_process(Some(file.0.clone()))
            .with_detach(exec.detach)
            .with_ignore_paused(exec.ignore_paused)
            .build();
        remove_dead_sockets(&container.root);
        let pid = pid.map_err(failed)?;
        drop(file);
        if let Some(file) = &exec.pid_file {
            write_pid_file(file, pid.as_raw())?;
        }
        if exec.detach {
            return Ok(None);
        }
        process::wait(pid.as_raw()).map(Some)
    }
}

/// Removes the sockets over which libcontainer tells a new process to begin: it leaves one for each exec. Those of
/// execs that are under way are still known to the kernel, and stay.
fn remove_dead_sockets(folder: &Path) {
    let alive = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with("tenant-notify-") && !alive.contains(name) {
            // Best effort: it goes with the container at the latest.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn read(file: &Path) -> Result<Process> {
    let what = || format!("read process {}", file.display());
    let mut bytes = Vec::new();
    File::open(file).and_then(|file| file.take(PROCESS_MAX).read_to_end(&mut bytes)).attempt(what)?;
    serde_json::from_slice(&bytes).map_err(|err| Fault::new(Code::Usage, what(), err))
}

/// The container's own process with another program and what else was asked for.
fn asked_for(spec: &Spec, exec: &Exec) -> Result<Process> {
    let missing = |what: &str| Fault::new(Code::Usage, "exec", what).advise("see `baton --help`");
    if exec.args.is_empty() {
        return Err(missing("no command given"));
    }
    let mut process = spec.process().clone().ok_or_else(|| missing("the container's spec has no process"))?;
    let mut env = process.env().clone().unwrap_or_default();
    env.retain(|entry| !exec.env.contains_key(entry.split('=').next().unwrap_or(entry)));
    env.extend(exec.env.iter().map(|(name, value)| format!("{name}={value}")));
    process.set_env(Some(env)).set_args(Some(exec.args.clone())).set_terminal(Some(exec.tty));
    if let Some(cwd) = &exec.cwd {
        process.set_cwd(cwd.clone());
    }
    if exec.no_new_privs {
        process.set_no_new_privileges(Some(true));
    }
    let mut user = process.user().clone();
    if let Some((uid, gid)) = exec.user {
        user.set_uid(uid).set_gid(gid.unwrap_or(0)).set_additional_gids(None);
    }
    if !exec.additional_gids.is_empty() {
        user.set_additional_gids(Some(exec.additional_gids.clone()));
    }
    process.set_user(user);
    add_capabilities(&mut process, &exec.capabilities)?;
    Ok(process)
}

fn add_capabilities(process: &mut Process, names: &[String]) -> Result<()> {
    let Some(mut capabilities) = process.capabilities().clone() else { return Ok(()) };
    for name in names {
        let capability = serde_json::from_value::<Capability>(serde_json::Value::String(name.to_ascii_uppercase()))
            .map_err(|_| Fault::new(Code::Usage, format_args!("capability {name:?}"), "there is none of that name"))?;
        for set in [Set::Bounding, Set::Effective, Set::Permitted] {
            set.add(&mut capabilities, capability);
        }
    }
    process.set_capabilities(Some(capabilities));
    Ok(())
}

/// One of the three sets that a program's capabilities come from.
#[derive(Clone, Copy)]
pub(crate) enum Set {
    Bounding,
    Effective,
    Permitted,
}

impl Set {
    pub(crate) fn add(self, to: &mut LinuxCapabilities, capability: Capability) {
        let with = |set: &Option<Capabilities>| {
            let mut set = set.clone().unwrap_or_default();
            set.insert(capability);
            Some(set)
        };
        match self {
            Set::Bounding => to.set_bounding(with(to.bounding())),
            Set::Effective => to.set_effective(with(to.effective())),
            Set::Permitted => to.set_permitted(with(to.permitted())),
        };
    }
}

/// A process description for libcontainer, in the container's state folder for as long as it is read.
struct ProcessFile(PathBuf);

impl ProcessFile {
    fn write(folder: &Path, process: &Process) -> Result<ProcessFile> {
        let path = folder.join(format!("exec-{}.json", std::process::id()));
        let text = serde_json::to_vec(process)
            .map_err(|err| Fault::new(Code::Engine, format_args!("write {}", path.display()), err))?;
        std::fs::write(&path, text).attempt(|| format!("write {}", path.display()))?;
        Ok(ProcessFile(path))
    }
}

impl Drop for ProcessFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
