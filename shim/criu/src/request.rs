//! The two requests that Baton makes of CRIU, and what comes of them.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use rust_criu::rust_criu_protobuf::rpc;

use crate::Criu;
use crate::log;
use crate::swrk::{Steps, Worker};

/// CRIU's log level 4: debug, with the name of each object before it is dumped or restored.
const LOG_LEVEL: i32 = 4;

/// Longest time for all tasks of a container to stop, in seconds; CRIU's own limit is 10, too little for a
/// machine that swaps or a task in a long device call.
const STOP_TIMEOUT_S: u32 = 120;

/// Largest deleted file that is saved with the container, in bytes. CRIU's own limit is 1 MiB.
const GHOST_LIMIT: u32 = 64 << 20;

/// CLONE_NEWNET of linux/sched.h, as CRIU's `empty_ns` wants it.
const NEWNET: u32 = 0x4000_0000;

/// Something of a container that CRIU must not save, but leave to whoever restores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum External {
    /// The mount on `mountpoint`, known as `key` in the image.
    Mount {
        /// Path in the container when saving; the key when restoring.
        from: String,
        /// The key when saving; a path on this host when restoring.
        to: String,
    },
    /// A namespace, known as `key` in the image.
    Namespace {
        /// `net`, `pid`.
        kind: &'static str,
        /// Inode number of the namespace file.
        inode: u64,
        /// Name in the image.
        key: String,
    },
}

/// A descriptor of ours that takes the place of `key` in the restored tree.
#[derive(Debug)]
pub struct Inherited {
    /// `pipe:[N]`, or the key of an external namespace.
    pub key: String,
    /// 0, 1 or 2, or a descriptor that stays open until the request is done.
    pub fd: i32,
}

/// A namespace that the restored tree joins instead of making it.
#[derive(Clone, Debug)]
pub struct JoinedNamespace {
    /// `ipc`, `uts`, …
    pub kind: &'static str,
    /// Namespace file.
    pub path: PathBuf,
}

/// What happens to established TCP connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpMode {
    /// They make the dump fail.
    #[default]
    Refuse,
    /// They are saved, and restored with the same addresses.
    Established,
    /// They are closed in the restored tree.
    Close,
}

/// What a dump and a restore have in common.
#[derive(Debug, Default)]
pub struct Common {
    /// Image folder; exists.
    pub images: PathBuf,
    /// Folder for CRIU's log and scratch files; exists.
    pub work: PathBuf,
    /// The container's root: a path on this host.
    pub root: PathBuf,
    /// External mounts and namespaces.
    pub externals: Vec<External>,
    /// Established TCP connections.
    pub tcp: TcpMode,
    /// Unix sockets with a peer outside.
    pub ext_unix_sk: bool,
    /// The session leader is outside.
    pub shell_job: bool,
    /// File locks.
    pub file_locks: bool,
    /// The network namespace is neither saved nor restored, but made anew and empty.
    pub empty_net: bool,
}

/// Saves a process tree.
#[derive(Debug, Default)]
pub struct Dump {
    /// As for a restore.
    pub common: Common,
    /// First process of the tree, as this host numbers it.
    pub pid: i32,
    /// The tree goes on (or stays frozen) afterwards; else it is killed.
    pub leave_running: bool,
    /// The freezer cgroup by which the tree is stopped. One that is frozen stays frozen.
    pub freezer: Option<PathBuf>,
    /// Connections in the making are left out.
    pub tcp_skip_in_flight: bool,
    /// Images of an earlier dump, as a path relative to the image folder: memory that has not changed stays there.
    pub parent: Option<PathBuf>,
    /// Only memory is written, and the tree goes on.
    pub memory_only: bool,
    /// Memory that is written again is removed from the earlier images.
    pub auto_dedup: bool,
    /// Memory goes to a page server instead of the image folder.
    pub page_server: Option<PageServer>,
}

/// Where a page server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageServer {
    /// Its address.
    pub address: String,
    /// Its port.
    pub port: u16,
}

/// Rebuilds a process tree.
#[derive(Debug, Default)]
pub struct Restore {
    /// As for a dump; `root` must be a mount point.
    pub common: Common,
    /// Descriptors of ours for the tree.
    pub inherited: Vec<Inherited>,
    /// Descriptors named in `inherited` other than the standard streams.
    pub descriptors: Vec<OwnedFd>,
    /// Namespaces of ours for the tree.
    pub joined: Vec<JoinedNamespace>,
    /// The cgroup namespace for the tree; ours when not given.
    pub cgroup_namespace: Option<OwnedFd>,
    /// Memory that was read is removed from the images.
    pub auto_dedup: bool,
    /// A profile of a Linux security module, `TYPE:NAME`, in place of the saved one.
    pub lsm_profile: Option<String>,
    /// The SELinux context of mounts, in place of the saved one.
    pub lsm_mount_context: Option<String>,
}

impl Dump {
    /// Name of CRIU's log in the work folder.
    pub const LOG: &str = "dump.log";
}

impl Restore {
    /// Name of CRIU's log in the work folder.
    pub const LOG: &str = "restore.log";
}

impl Criu {
    /// Saves a tree. On failure it goes on, or stays frozen, as it was.
    ///
    /// # Errors
    /// `CRIU` with the last real error of the log, `NO_SPACE` when room ran out.
    pub fn dump(&self, dump: &Dump) -> Result<()> {
        let (mut options, _folders) = common_options(&dump.common, Dump::LOG)?;
        options.set_pid(dump.pid);
        options.set_leave_running(dump.leave_running);
        options.set_link_remap(true);
        options.set_tcp_skip_in_flight(dump.tcp_skip_in_flight);
        options.set_auto_dedup(dump.auto_dedup);
        if let Some(freezer) = &dump.freezer {
            options.set_freeze_cgroup(text(freezer)?);
        }
        if let Some(parent) = &dump.parent {
            options.set_parent_img(text(parent)?);
        }
        options.set_track_mem(dump.parent.is_some() || dump.memory_only);
        if let Some(server) = &dump.page_server {
            let mut place = rpc::Criu_page_server_info::new();
            place.set_address(server.address.clone());
            place.set_port(server.port.into());
            options.ps = Some(place).into();
        }
        let mut worker = Worker::spawn(self.path(), &folder_fds(&_folders), false, None)?;
        let mut request = rpc::Criu_req::new();
        request.set_type(match dump.memory_only {
            true => rpc::Criu_req_type::PRE_DUMP,
            false => rpc::Criu_req_type::DUMP,
        });
        request.opts = Some(options).into();
        let answer = worker.converse(&request, &mut ());
        let what = format!("CRIU dump of process {}", dump.pid);
        outcome(answer, &what, &dump.common, Dump::LOG)?;
        worker.finish()
    }

    /// Rebuilds a tree and lets it run; its first process, a child of ours, is returned as this host numbers it.
    ///
    /// # Errors
    /// `CRIU` with the last real error of the log, `NO_SPACE` when room ran out, and what a step of the caller
    /// returned. What is left of the tree is the caller's to kill.
    pub fn restore(&self, restore: &Restore, steps: &mut dyn Steps) -> Result<i32> {
        let (mut options, folders) = common_options(&restore.common, Restore::LOG)?;
        options.set_rst_sibling(true);
        options.set_evasive_devices(true);
        options.set_auto_dedup(restore.auto_dedup);
        if let Some(profile) = &restore.lsm_profile {
            options.set_lsm_profile(profile.clone());
        }
        if let Some(context) = &restore.lsm_mount_context {
            options.set_lsm_mount_context(context.clone());
        }
        for inherited in &restore.inherited {
            let mut entry = rpc::Inherit_fd::new();
            entry.set_key(inherited.key.clone());
            entry.set_fd(inherited.fd);
            options.inherit_fd.push(entry);
        }
        for joined in &restore.joined {
            let mut entry = rpc::Join_namespace::new();
            entry.set_ns(joined.kind.to_owned());
            entry.set_ns_file(text(&joined.path)?);
            options.join_ns.push(entry);
        }
        let mut inherited = folder_fds(&folders);
        inherited.extend(restore.descriptors.iter().map(AsFd::as_fd));
        let cgroup_namespace = restore.cgroup_namespace.as_ref().map(AsFd::as_fd);
        let mut worker = Worker::spawn(self.path(), &inherited, true, cgroup_namespace)?;
        steps.worker_started(worker.pid())?;
        let mut request = rpc::Criu_req::new();
        request.set_type(rpc::Criu_req_type::RESTORE);
        request.opts = Some(options).into();
        let answer = worker.converse(&request, steps);
        let what = format!("CRIU restore from {}", restore.common.images.display());
        let answer = outcome(answer, &what, &restore.common, Restore::LOG)?;
        worker.finish()?;
        Ok(answer.restore.pid())
    }
}

/// The folders that a request names by descriptor; open until CRIU has started.
struct Folders {
    images: File,
    work: File,
}

fn folder_fds(folders: &Folders) -> Vec<std::os::fd::BorrowedFd<'_>> {
    vec![folders.images.as_fd(), folders.work.as_fd()]
}

fn common_options(common: &Common, log_file: &str) -> Result<(rpc::Criu_opts, Folders)> {
    let open = |path: &Path| File::open(path).attempt(|| format!("open {}", path.display()));
    let folders = Folders { images: open(&common.images)?, work: open(&common.work)? };
    // A log of an earlier run would be read as this one's.
    let _ = std::fs::remove_file(common.work.join(log_file));
    let mut options = rpc::Criu_opts::new();
    options.set_images_dir_fd(folders.images.as_raw_fd());
    options.set_work_dir_fd(folders.work.as_raw_fd());
    options.set_log_level(LOG_LEVEL);
    options.set_log_file(log_file.to_owned());
    options.set_root(text(&common.root)?);
    options.set_config_file(text(&without_plugins(&common.work)?)?);
    options.set_notify_scripts(true);
    options.set_manage_cgroups(true);
    options.set_manage_cgroups_mode(rpc::Criu_cg_mode::IGNORE);
    options.set_orphan_pts_master(true);
    options.set_timeout(STOP_TIMEOUT_S);
    options.set_ghost_limit(GHOST_LIMIT);
    // Packets have to wait only for connections that are to live on. nftables takes half of iptables' time.
    options.set_network_lock(match common.tcp {
        TcpMode::Established => rpc::Criu_network_lock_method::NFTABLES,
        TcpMode::Refuse | TcpMode::Close => rpc::Criu_network_lock_method::SKIP,
    });
    options.set_ext_unix_sk(common.ext_unix_sk);
    options.set_shell_job(common.shell_job);
    options.set_file_locks(common.file_locks);
    options.set_tcp_established(common.tcp == TcpMode::Established);
    options.set_tcp_close(common.tcp == TcpMode::Close);
    if common.empty_net {
        options.set_empty_ns(NEWNET);
    }
    for external in &common.externals {
        match external {
            External::Mount { from, to } => {
                let mut entry = rpc::Ext_mount_map::new();
                entry.set_key(from.clone());
                entry.set_val(to.clone());
                options.ext_mnt.push(entry);
            }
            External::Namespace { kind, inode, key } => options.external.push(format!("{kind}[{inode}]:{key}")),
        }
    }
    Ok((options, folders))
}

/// A configuration file that points CRIU at an empty plugin folder; the request itself has no field for it.
/// CRIU's configuration has no quoting for a path that is safe with every character, so the folder is a fixed one.
fn without_plugins(work: &Path) -> Result<PathBuf> {
    const EMPTY: &str = "/run/baton/criu-without-plugins";
    std::fs::create_dir_all(EMPTY).attempt(|| format!("make {EMPTY}"))?;
    let file = work.join("criu.conf");
    std::fs::write(&file, format!("libdir {EMPTY}\n")).attempt(|| format!("write {}", file.display()))?;
    Ok(file)
}

fn outcome(answer: Result<rpc::Criu_resp>, what: &str, common: &Common, log_file: &str) -> Result<rpc::Criu_resp> {
    let answer = answer.map_err(|fault| match fault.code {
        // CRIU itself broke off: its log may say why.
        Code::Criu => failure(what, None, common, log_file),
        _ => fault,
    })?;
    if answer.success() {
        return Ok(answer);
    }
    Err(failure(what, Some(&answer), common, log_file))
}

fn failure(what: &str, answer: Option<&rpc::Criu_resp>, common: &Common, log_file: &str) -> Fault {
    let log_path = common.work.join(log_file);
    let cause = log::cause(&log_path);
    let errno = answer.map_or(0, rpc::Criu_resp::cr_errno);
    let full = cause.no_space || errno == libc::ENOSPC || is_full(&common.images) || is_full(&common.work);
    let why = match (cause.text.is_empty(), errno) {
        (false, _) => cause.text,
        (true, 0) if full => "no room is left".to_owned(),
        (true, 0) => "no error in its log".to_owned(),
        (true, errno) => std::io::Error::from_raw_os_error(errno).to_string(),
    };
    if full {
        Fault::new(Code::NoSpace, what, why).advise(format_args!("make room where {} lies", common.images.display()))
    } else {
        let kept = format!("CRIU's log is kept in the bundle as criu-{log_file}");
        Fault::new(Code::Criu, what, why).advise(match cause.option {
            Some(option) => format!("ask for it with {option}; {kept}"),
            None => kept,
        })
    }
}

fn is_full(folder: &Path) -> bool {
    nix::sys::statvfs::statvfs(folder).is_ok_and(|stat| stat.blocks_available() == 0 && stat.blocks() > 0)
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Fault::new(Code::Criu, format_args!("name {} to CRIU", path.display()), "it is not UTF-8")
            .advise("use a path that is")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(dir: &Path) -> Common {
        Common { images: dir.to_owned(), work: dir.to_owned(), root: dir.to_owned(), ..Common::default() }
    }

    #[test]
    fn a_failure_carries_the_last_error_of_the_log() {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::write(dir.path().join(Dump::LOG), "(00.1) Error (a.c:1): Can't dump socket\n").expect("write");
        let fault = failure("CRIU dump of process 7", None, &common(dir.path()), Dump::LOG);
        assert_eq!(fault.code, Code::Criu);
        assert!(fault.to_string().contains("CRIU dump of process 7: Can't dump socket"), "{fault}");
    }

    #[test]
    fn no_room_has_its_own_code() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let mut answer = rpc::Criu_resp::new();
        answer.set_cr_errno(libc::ENOSPC);
        let fault = failure("CRIU dump", Some(&answer), &common(dir.path()), Dump::LOG);
        assert_eq!(fault.code, Code::NoSpace);
    }
}
