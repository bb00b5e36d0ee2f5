//! `create`: everything up to the program itself, which waits for `start`.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use baton_fault::{Attempt, Code, Fault, Result};
use baton_rooted::Rooted;
use libcontainer::container::ContainerStatus;
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::error::{ErrInvalidSpec, LibcontainerError};
use libcontainer::notify_socket::{NOTIFY_FILE, NotifyListener};
use libcontainer::syscall::syscall::SyscallType;
use libcontainer::tty;
use libcontainer::validator::Validator;
use oci_spec::runtime::{LinuxNamespaceType, Spec};

use crate::birth::{self, Birth};
use crate::bundle::Bundle;
use crate::cgroup::Cgroup;
use crate::container::{chain, engine, record_start, write_pid_file};
use crate::sources::Sources;
use crate::stand_in::{self, StandIn};
use crate::state_file;
use crate::state_folder::StateFolder;
use crate::workload::Workload;
use crate::{Engine, culprit, keyring, kill, loopback, mount_finish, process};

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
    /// The container's processes keep the session keyring of whoever creates it.
    pub no_new_keyring: bool,
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

/// The spec as libcontainer takes it, once it has passed libcontainer's own checks.
fn checked_spec(bundle: &Bundle, stand_in: Option<Spec>) -> std::result::Result<Spec, LibcontainerError> {
    let mut spec = stand_in.unwrap_or_else(|| bundle.spec.clone());
    if !spec.version().starts_with("1.") {
        return Err(ErrInvalidSpec::UnsupportedVersion.into());
    }
    Validator::validate_spec(&spec)?;
    let profile = spec.process().as_ref().and_then(|process| process.apparmor_profile().clone());
    // A kernel without AppArmor has not even the file that would say so.
    if profile.is_some_and(|profile| !profile.is_empty()) && !libcontainer::apparmor::is_enabled().unwrap_or(false) {
        return Err(ErrInvalidSpec::AppArmorNotEnabled.into());
    }
    spec.canonicalize_rootfs(&bundle.path)?;
    plain_privileges(&mut spec);
    Ok(spec)
}

/// libcontainer takes an explicit `"noNewPrivileges": false` for the wish, and installs the seccomp filter only when
/// the right to do so has been dropped. Not saying it means the same.
pub(crate) fn plain_privileges(spec: &mut Spec) {
    if let Some(mut process) = spec.process().clone()
        && process.no_new_privileges() == Some(false)
    {
        process.set_no_new_privileges(None);
        spec.set_process(Some(process));
    }
}

/// A terminal needs somebody who takes its other end, and nobody sends one when there is none.
pub(crate) fn check_console(spec: &Spec, socket: bool) -> std::result::Result<(), LibcontainerError> {
    let terminal = spec.process().as_ref().and_then(|process| process.terminal()).unwrap_or(false);
    match (terminal, socket) {
        (true, false) => Err(ErrInvalidSpec::ConsoleSocketRequired.into()),
        (false, true) => Err(ErrInvalidSpec::InvalidConsoleSocket.into()),
        _ => Ok(()),
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
        bundle.check_confinement()?;
        make_working_folder(&bundle)?;
        if !create.no_new_keyring {
            keyring::join(id)?;
        }
        if birth::is_ordinary(&bundle.spec) {
            let pid = self
                .give_birth(id, create, &bundle)
                .map_err(|fault| baton_hook::fault(&bundle.path).unwrap_or(fault))?;
            return self.finish(id, create, &bundle, &folder, pid);
        }
        // libcontainer's builder clears up after a failure by killing whoever is in the cgroup.
        if !folder.exists() {
            Cgroup::asked_for(&bundle.spec, id, self.systemd_cgroup)?.must_be_empty()?;
        }
        let sources = Sources::of(&bundle)?;
        let stand_in = StandIn::of(&bundle, &self.root, id, self.systemd_cgroup, sources.as_ref())?;
        let shown = stand_in.as_ref().map_or(bundle.path.as_path(), StandIn::path);
        // The hook has no other way to the user: its standard error is the container's.
        let failed = |err| {
            let fault = baton_hook::fault(shown).unwrap_or_else(|| engine(&what, &err));
            culprit::missing_source(&bundle.spec).map_or(fault.clone(), |source| fault.during(source))
        };
        let mut container = ContainerBuilder::new(id.to_owned(), SyscallType::Linux)
            .with_executor(Workload)
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
        if stand_in.is_some() {
            container.state.bundle = bundle.path.clone();
            state_file::save(&container)?;
        }
        let resources = bundle.spec.linux().as_ref().and_then(|linux| linux.resources().as_ref());
        Cgroup::of(&container).and_then(|cgroup| cgroup.restrict_devices(resources)).inspect_err(|_| {
            // Best effort: the first failure is the one to tell.
            let _ = self.delete(id, true);
        })?;
        self.finish(id, create, &bundle, &folder, pid)
    }

    /// Makes the first process of an ordinary container.
    fn give_birth(&self, id: &str, create: &Create, bundle: &Bundle) -> Result<i32> {
        let what = format!("create container {id}");
        let failed = |err| engine(&what, &err);
        let cgroup = Cgroup::asked_for(&bundle.spec, id, self.systemd_cgroup)?;
        let spec = checked_spec(bundle, stand_in::spec(bundle, &cgroup)?).map_err(failed)?;
        check_console(&spec, create.console_socket.is_some()).map_err(failed)?;
        let state = StateFolder::make(self.folder(id)?, id)?;
        let mut container = state.begin(id, bundle, &spec, self.systemd_cgroup)?;
        let begin = NotifyListener::new(&state.path.join(NOTIFY_FILE))
            .map_err(|err| Fault::new(Code::Engine, &what, chain(&err)))?;
        let console = match &create.console_socket {
            Some(socket) => Some(
                tty::setup_console_socket(&state.path, socket, "console-socket")
                    .map_err(|err| Fault::new(Code::Engine, &what, chain(&err)))?,
            ),
            None => None,
        };
        let resources = spec.linux().as_ref().and_then(|linux| linux.resources().as_ref());
        cgroup.must_be_empty()?;
        cgroup.prepare(resources).inspect_err(|_| cgroup.forsake())?;
        let birth = Birth {
            what: what.clone(),
            spec: Rc::new(spec),
            cgroup: &cgroup,
            container: Some(container.clone()),
            begin,
            console,
            preserve_fds: create.preserve_fds,
            no_pivot: create.no_pivot,
            executor: Box::new(Workload),
        };
        let pid = birth.give().inspect_err(|_| cgroup.forsake())?.pid;
        container.set_status(ContainerStatus::Created).set_creator(nix::unistd::geteuid().as_raw()).set_pid(pid);
        state_file::save(&container).inspect_err(|_| {
            // Best effort: the first failure is the one to tell. A cgroup goes when nobody is left in it.
            let _ = (kill::send(pid, libc::SIGKILL), process::wait(pid));
            cgroup.forsake();
        })?;
        state.keep();
        Ok(pid)
    }

    /// What is done once the first process waits for its start; undone with all the rest when it fails.
    fn finish(&self, id: &str, create: &Create, bundle: &Bundle, folder: &Path, pid: i32) -> Result<()> {
        let finish = || -> Result<()> {
            record_start(folder, pid)?;
            mount_finish::finish(bundle, pid)?;
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
