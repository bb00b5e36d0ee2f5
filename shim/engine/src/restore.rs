//! `restore`: a container's processes from a folder of CRIU images, under the live spec.
//!
//! The image says what ran. What it may do comes from the bundle alone: mounts, devices, cgroup, namespaces, masked
//! paths and the filter of system calls are the live spec's, and credentials in the image that exceed it are refused
//! while nothing runs.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use baton_criu::{Common, Criu, Inherited, JoinedNamespace, TcpMode};
use baton_fault::{Attempt, Code, Fault, Result};
use libcontainer::container::{Container, ContainerStatus};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use oci_spec::runtime::LinuxNamespaceType;

use crate::attended::{self, Watch};
use crate::bundle::Bundle;
use crate::cgroup::Cgroup;
use crate::checkpoint::make_private;
use crate::container::{record_start, write_pid_file};
use crate::restored::Rebuilding;
use crate::seccomp::Covered;
use crate::state_file;
use crate::state_folder::StateFolder;
use crate::{Engine, descriptors, external, loopback, mount_points, process};

/// CRIU's log of a failed restore, in the bundle.
const KEPT_LOG: &str = "criu-restore.log";

/// What `restore` is told.
#[derive(Clone, Debug, Default)]
pub struct Restore {
    /// The bundle with the live spec and the restored root filesystem.
    pub bundle: PathBuf,
    /// Folder with the images; only read, unless `auto_dedup`.
    pub image_path: PathBuf,
    /// Folder for CRIU's log and scratch files; a folder in the container's state when not given.
    pub work_path: Option<PathBuf>,
    /// File for the process number of the container's first process.
    pub pid_file: Option<PathBuf>,
    /// Unix socket to which the terminal's master end is sent.
    pub console_socket: Option<PathBuf>,
    /// Do not wait for the end.
    pub detach: bool,
    /// Established TCP connections.
    pub tcp: TcpMode,
    /// Unix sockets with a peer outside.
    pub ext_unix_sk: bool,
    /// The session leader is outside.
    pub shell_job: bool,
    /// The images name earlier ones, by this path relative to their folder. Nothing else may be named there.
    pub parent_path: Option<PathBuf>,
    /// Memory that was read is removed from the images.
    pub auto_dedup: bool,
    /// A profile of a Linux security module, `TYPE:NAME`.
    pub lsm_profile: Option<String>,
    /// The SELinux context of mounts.
    pub lsm_mount_context: Option<String>,
}

impl Engine {
    /// Rebuilds a container under a new id; unless detached, waits for its end, deletes it and gives its exit status. The first
    /// process is a child of the caller's, and has the caller's standard streams where the saved one had pipes.
    ///
    /// When it fails nothing is left but CRIU's log, in the bundle as `criu-restore.log`; the images are untouched.
    ///
    /// # Errors
    /// `EXISTS`, `BUNDLE`, `CRIU_VERSION`, `IMAGE_CORRUPT`, `RESTORE_MOUNT`, `RESTORE_STATE` for credentials beyond
    /// the live spec, `CRIU` with the last real error of its log, `NO_SPACE`.
    pub fn restore(&self, id: &str, restore: &Restore) -> Result<Option<i32>> {
        let folder = self.folder(id)?;
        let criu = Criu::find()?;
        let bundle = Bundle::open(&restore.bundle)?;
        bundle.check_confinement()?;
        attended::check(has_terminal(&bundle), restore.detach, restore.console_socket.as_deref())?;
        baton_criu::only_files(&restore.image_path, restore.parent_path.as_deref())?;
        baton_criu::memory_is_whole(&restore.image_path)?;
        let container = self.begin(id, &folder, &bundle)?;
        let work = restore.work_path.clone().unwrap_or_else(|| folder.join("criu"));
        let _ = fs::remove_file(work.join(baton_criu::Restore::LOG));
        let rebuilt = self.rebuild(&criu, &bundle, container, restore, &work);
        let (pid, master) = rebuilt.map_err(|fault| {
            let _ = fs::copy(work.join(baton_criu::Restore::LOG), bundle.path.join(KEPT_LOG));
            self.forget_failed(id, &folder, &bundle);
            fault.during(format_args!("restore container {id}"))
        })?;
        if restore.detach {
            return Ok(None);
        }
        let code = Watch::begin()?.wait(pid, master)?;
        self.delete_ended(id)?;
        Ok(Some(code))
    }

    /// Takes the id: a state folder, with a container that is being created.
    fn begin(&self, id: &str, folder: &Path, bundle: &Bundle) -> Result<Container> {
        let what = format!("restore container {id}");
        make_private(&self.root)?;
        let made = StateFolder::make(folder.to_owned(), id).map_err(|fault| fault.during(&what))?;
        let container = made.begin(id, bundle, &bundle.spec, self.systemd_cgroup)?;
        made.keep();
        Ok(container)
    }

    fn rebuild(
        &self,
        criu: &Criu,
        bundle: &Bundle,
        mut container: Container,
        restore: &Restore,
        work: &Path,
    ) -> Result<(i32, Option<OwnedFd>)> {
        let folder = container.root.clone();
        let saved = baton_criu::mounts(&restore.image_path)?;
        let cgroup = Cgroup::asked_for(&bundle.spec, container.id(), self.systemd_cgroup)?;
        let externals = external::when_restoring(bundle, &cgroup, &saved)?;
        make_private(work)?;
        let root = Root::mount(&bundle.rootfs, &folder)?;
        mount_points::make(bundle, &root.0)?;
        let filters = Covered::by_those_of(&bundle.spec, &restore.image_path, &folder)?;
        let mut request = baton_criu::Restore {
            common: Common {
                images: restore.image_path.clone(),
                work: work.to_owned(),
                root: root.0.clone(),
                externals,
                tcp: restore.tcp,
                ext_unix_sk: restore.ext_unix_sk,
                shell_job: restore.shell_job,
                // Whoever saved them wants them: without this CRIU lets them go and says nothing.
                file_locks: true,
                empty_net: false,
            },
            inherited: descriptors::inherited(&restore.image_path)?,
            auto_dedup: restore.auto_dedup,
            lsm_profile: restore.lsm_profile.clone(),
            lsm_mount_context: restore.lsm_mount_context.clone(),
            ..baton_criu::Restore::default()
        };
        bring_namespaces(bundle, &mut request)?;
        let console = restore.console_socket.as_deref();
        let mut rebuilding = Rebuilding::new(bundle, &cgroup, &container, console);
        let restored = rebuilding.in_cgroup_namespace(&mut request).and_then(|()| {
            let pid = criu.restore(&request, &mut rebuilding)?;
            rebuilding.terminal_must_have_come().map(|()| pid)
        });
        let (entered, init, master) = (rebuilding.entered, rebuilding.init, rebuilding.master.take());
        let pid = restored.inspect_err(|_| {
            if entered {
                end(&cgroup, init);
            }
        })?;
        drop((filters, root));
        let mut finish = || -> Result<()> {
            record_start(&folder, pid)?;
            container.set_status(ContainerStatus::Created).set_status(ContainerStatus::Running).set_pid(pid);
            container.set_creator(nix::unistd::geteuid().as_raw());
            state_file::save(&container)?;
            restore.pid_file.as_ref().map_or(Ok(()), |file| write_pid_file(file, pid))
        };
        finish().inspect_err(|_| end(&cgroup, Some(pid)))?;
        Ok((pid, master))
    }

    /// Removes the state of a container that could not be restored. Best effort: the first failure is the one to
    /// tell.
    fn forget_failed(&self, id: &str, folder: &Path, bundle: &Bundle) {
        if let Ok(cgroup) = Cgroup::asked_for(&bundle.spec, id, self.systemd_cgroup)
            && cgroup.processes().is_ok_and(|pids| pids.is_empty())
        {
            let _ = cgroup.remove();
        }
        let _ = fs::remove_dir_all(folder);
    }
}

/// Whether the live spec gives the first process a terminal.
pub(crate) fn has_terminal(bundle: &Bundle) -> bool {
    bundle.spec.process().as_ref().and_then(|process| process.terminal()).unwrap_or(false)
}

/// Ends what there is of a half-restored tree, whose first process is a child of ours.
fn end(cgroup: &Cgroup, init: Option<i32>) {
    let _ = cgroup.kill_all();
    if let Some(init) = init {
        let _ = process::wait(init);
    }
}

/// The root filesystem on a mount of its own, as CRIU wants it, in a mount namespace that nobody else sees.
struct Root(PathBuf);

impl Root {
    fn mount(rootfs: &Path, folder: &Path) -> Result<Root> {
        let point = folder.join("criu-root");
        let what = || format!("mount {} on {}", rootfs.display(), point.display());
        fs::create_dir(&point).attempt(what)?;
        let none: Option<&str> = None;
        unshare(CloneFlags::CLONE_NEWNS)
            .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none))
            .and_then(|()| mount(Some(rootfs), &point, none, MsFlags::MS_REC | MsFlags::MS_BIND, none))
            .map_err(std::io::Error::from)
            .attempt(what)?;
        Ok(Root(point))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // The mount is in our namespace only, and ends with it.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
        let _ = fs::remove_dir(&self.0);
    }
}

/// The namespaces that come from outside the image: the network's always, others where the spec gives a path.
fn bring_namespaces(bundle: &Bundle, request: &mut baton_criu::Restore) -> Result<()> {
    use LinuxNamespaceType as Kind;
    let net: Option<OwnedFd> = match bundle.namespace(Kind::Network) {
        None => None,
        Some(None) => Some(loopback::new_namespace()?),
        Some(Some(path)) => {
            Some(fs::File::open(path).attempt(|| format!("open network namespace {}", path.display()))?.into())
        }
    };
    if let Some(net) = net {
        request.inherited.push(Inherited { key: external::NET_KEY.to_owned(), fd: net.as_raw_fd() });
        request.descriptors.push(net);
    }
    for (kind, name) in [(Kind::Ipc, "ipc"), (Kind::Uts, "uts")] {
        if let Some(Some(path)) = bundle.namespace(kind) {
            request.joined.push(JoinedNamespace { kind: name, path: path.to_owned() });
        }
    }
    if let Some(Some(path)) = bundle.namespace(Kind::Pid) {
        let file = fs::File::open(path).attempt(|| format!("open pid namespace {}", path.display()))?;
        request.inherited.push(Inherited { key: external::PID_KEY.to_owned(), fd: file.as_raw_fd() });
        request.descriptors.push(file.into());
    }
    for (kind, name) in [(Kind::Mount, "mnt"), (Kind::User, "user")] {
        if let Some(Some(path)) = bundle.namespace(kind) {
            return Err(Fault::new(
                Code::RestoreState,
                format_args!("join the {name} namespace {}", path.display()),
                "a restored container cannot",
            )
            .advise("leave the path out of the spec"));
        }
    }
    Ok(())
}
