//! `exec`: one more program in a running container.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use baton_fault::{Attempt, Code, Fault, Result};
use libcontainer::container::{Container, ContainerStatus};
use libcontainer::error::LibcontainerError;
use libcontainer::notify_socket::{NotifyListener, NotifySocket};
use libcontainer::tty;
use oci_spec::runtime::{
    Capabilities, Capability, Linux, LinuxCapabilities, LinuxNamespaceBuilder, LinuxNamespaceType, Process, Spec,
};

use crate::birth::Birth;
use crate::bundle::Bundle;
use crate::cgroup::Cgroup;
use crate::container::{chain, engine, write_pid_file};
use crate::workload::Workload;
use crate::{Engine, create, keyring};

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
    /// AppArmor profile.
    pub apparmor: Option<String>,
    /// SELinux label, which cannot be given.
    pub selinux: Option<String>,
    /// Cgroups below the container's, as runc names them.
    pub cgroups: Vec<String>,
}

/// Refuses what the program would not get.
fn refuse_labels(exec: &Exec) -> Result<()> {
    let refuse = |option: &str, why: &str| {
        Err(Fault::new(Code::Usage, format_args!("exec with {option}"), why).advise("leave it out"))
    };
    if exec.selinux.is_some() {
        return refuse("--process-label", "SELinux is not in use here");
    }
    match exec.cgroups.iter().find(|group| group.rsplit(':').next() != Some("/")) {
        Some(_) => refuse("--cgroup", "a program begins in the container's own cgroup, not in one below it"),
        None => Ok(()),
    }
}

/// Whether the program is to have a terminal.
pub(crate) fn wants_terminal(exec: &Exec) -> Result<bool> {
    match &exec.process {
        Some(file) => read(file).map(|process| process.terminal().unwrap_or(false)),
        None => Ok(exec.tty),
    }
}

impl Engine {
    /// Starts a program in a container with our standard streams, as a child of ours; its process number.
    ///
    /// # Errors
    /// As [`Engine::exec`].
    pub(crate) fn launch(&self, id: &str, exec: &Exec) -> Result<i32> {
        refuse_labels(exec)?;
        let container = self.load(id)?;
        keyring::join(id)?;
        let bundle = Bundle::open(container.bundle())?;
        let process = match &exec.process {
            Some(file) => read(file)?,
            None => asked_for(&bundle.spec, exec)?,
        };
        let what = format!("exec in container {id}");
        let failed = |err| engine(&what, &err);
        match container.status() {
            // As runc: in one whose own program has not begun, too.
            ContainerStatus::Created | ContainerStatus::Running => {}
            ContainerStatus::Paused if exec.ignore_paused => {}
            status => return Err(failed(LibcontainerError::IncorrectStatus(status))),
        }
        let spec = tenant_spec(&bundle, &container, process)?;
        create::check_console(&spec, exec.console_socket.is_some()).map_err(failed)?;
        let cgroup = Cgroup::of(&container)?;
        let pid = {
            let socket = Socket::in_folder(&container.root);
            let begin = NotifyListener::new(&socket.0).map_err(|err| Fault::new(Code::Engine, &what, chain(&err)))?;
            let console = match &exec.console_socket {
                Some(console) => {
                    let link = socket.0.with_extension("tty");
                    let connected = tty::setup_console_socket(&container.root, console, &file_name(&link));
                    // Best effort: it goes with the container at the latest.
                    let _ = std::fs::remove_file(&link);
                    Some(connected.map_err(|err| Fault::new(Code::Engine, &what, chain(&err)))?)
                }
                None => None,
            };
            let birth = Birth {
                what: what.clone(),
                spec: Rc::new(spec),
                cgroup: &cgroup,
                container: None,
                begin,
                console,
                preserve_fds: exec.preserve_fds,
                no_pivot: false,
                executor: Box::new(Workload),
            };
            let born = birth.give()?;
            if let Some(file) = &exec.pid_file {
                write_pid_file(file, born.pid)?;
            }
            NotifySocket::new(&socket.0)
                .notify_container_start()
                .map_err(|err| Fault::new(Code::Engine, &what, chain(&err)))?;
            born.executed(&what)?
        };
        Ok(pid)
    }
}

/// The spec of a further process: the container's namespaces as they are, its filter and its cgroup.
fn tenant_spec(bundle: &Bundle, container: &Container, process: Process) -> Result<Spec> {
    let what = format!("exec in container {}", container.id());
    let wrong = |err: &dyn std::error::Error| Fault::new(Code::Engine, &what, chain(err));
    let init = container.pid().ok_or_else(|| Fault::new(Code::State, &what, "it has no first process"))?;
    let missing = || Fault::new(Code::Bundle, &what, "the spec has no linux section");
    let of_container = bundle.spec.linux().as_ref().ok_or_else(missing)?;
    if of_container.seccomp().as_ref().is_some_and(libcontainer::seccomp::is_notify) {
        return Err(Fault::new(Code::Usage, &what, "its seccomp profile hands system calls to a listener")
            .advise("this version of Baton executes nothing in such a container"));
    }
    let mut namespaces = Vec::new();
    for namespace in of_container.namespaces().iter().flatten() {
        let file = match namespace.typ() {
            LinuxNamespaceType::Mount => "mnt".to_owned(),
            LinuxNamespaceType::Network => "net".to_owned(),
            other => other.to_string(),
        };
        let path = PathBuf::from(format!("/proc/{init}/ns/{file}"));
        let namespace = LinuxNamespaceBuilder::default().typ(namespace.typ()).path(path).build();
        namespaces.push(namespace.map_err(|err| wrong(&err))?);
    }
    let mut linux = Linux::default();
    linux
        .set_namespaces(Some(namespaces))
        .set_resources(None)
        .set_masked_paths(None)
        .set_readonly_paths(None)
        .set_personality(of_container.personality().clone())
        .set_seccomp(of_container.seccomp().clone())
        .set_cgroups_path(of_container.cgroups_path().clone());
    let mut spec = bundle.spec.clone();
    spec.set_process(Some(process)).set_linux(Some(linux)).set_hooks(None);
    spec.canonicalize_rootfs(&bundle.path).map_err(|err| wrong(&err))?;
    create::plain_privileges(&mut spec);
    Ok(spec)
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// The socket over which a new process is told to begin.
struct Socket(PathBuf);

impl Socket {
    fn in_folder(folder: &Path) -> Socket {
        Socket(folder.join(format!("exec-{}.sock", std::process::id())))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Best effort: it goes with the container at the latest.
        let _ = std::fs::remove_file(&self.0);
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
    if let Some(profile) = &exec.apparmor {
        process.set_apparmor_profile(Some(profile.clone()));
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
