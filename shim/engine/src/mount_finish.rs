//! What libcontainer 0.7 leaves undone on the mounts of a new container, done before its program runs:
//!
//! - it mounts the cgroup filesystems of version 1 writable whatever the spec says; here they become read-only where the
//!   spec wants that;
//! - a hierarchy with several controllers is to be found under each one's name;
//! - it drops what a mount's options say of propagation: without this, what the host mounts below a private volume
//!   would show up in the container.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use nix::sched::{CloneFlags, setns};
use nix::unistd::{ForkResult, fork};
use oci_spec::runtime::Mount;

use crate::bundle::{Bundle, is_bind};
use crate::external::{is_cgroup, resolve};
use crate::{mount_table, process};

/// One thing to do, on paths as the container has them.
enum Step {
    /// A symbolic link with that content.
    Link(PathBuf, String),
    /// No more writing here and below.
    Close(PathBuf),
    /// This propagation, and whether below too.
    Propagate(PathBuf, u64, bool),
}

/// Finishes the mounts of the created container with first process `pid`.
pub(crate) fn finish(bundle: &Bundle, pid: i32) -> Result<()> {
    let mut steps = Vec::new();
    for mount in bundle.mounts() {
        let wanted = is_bind(mount).then(|| propagation(mount)).flatten();
        if is_cgroup(mount) {
            steps.extend(cgroup_steps(&resolve(&bundle.rootfs, mount.destination())?, mount, pid)?);
        } else if let Some((kind, below)) = wanted {
            steps.push(Step::Propagate(resolve(&bundle.rootfs, mount.destination())?, kind, below));
        }
    }
    if steps.is_empty() { Ok(()) } else { within(pid, &steps) }
}

fn cgroup_steps(point: &Path, mount: &Mount, pid: i32) -> Result<Vec<Step>> {
    let table = mount_table::of(pid)?;
    let inside = || table.iter().filter(|mounted| mounted.point.starts_with(point));
    let names = inside().filter_map(|mounted| mounted.point.strip_prefix(point).ok()?.to_str());
    let shared = names.filter(|name| name.contains(','));
    let link = |whole: &str, part: &str| Step::Link(point.join(part), whole.to_owned());
    let mut steps: Vec<Step> = shared.flat_map(|whole| whole.split(',').map(|part| link(whole, part))).collect();
    let read_only = mount.options().iter().flatten().any(|option| option == "ro");
    if read_only && inside().any(|mounted| !mounted.read_only) {
        steps.push(Step::Close(point.to_owned()));
    }
    Ok(steps)
}

/// What a mount's options say of propagation, and whether of what is below too. One that is to be shared was made from
/// what the host shares, and is.
fn propagation(mount: &Mount) -> Option<(u64, bool)> {
    mount.options().iter().flatten().rev().find_map(|option| match option.as_str() {
        "private" => Some((libc::MS_PRIVATE, false)),
        "rprivate" => Some((libc::MS_PRIVATE, true)),
        "slave" => Some((libc::MS_SLAVE, false)),
        "rslave" => Some((libc::MS_SLAVE, true)),
        "unbindable" => Some((libc::MS_UNBINDABLE, false)),
        "runbindable" => Some((libc::MS_UNBINDABLE, true)),
        _ => None,
    })
}

/// A mount can be changed only from its own namespace, so a child of ours goes there.
fn within(pid: i32, steps: &[Step]) -> Result<()> {
    let what = || format!("finish the mounts of process {pid}");
    let namespace = File::open(format!("/proc/{pid}/ns/mnt")).attempt(what)?;
    // SAFETY: this program has one thread, so the child may run any code.
    match unsafe { fork() }.map_err(std::io::Error::from).attempt(what)? {
        ForkResult::Child => {
            let there = setns(&namespace, CloneFlags::CLONE_NEWNS).map_err(std::io::Error::from);
            let done = there.and_then(|()| steps.iter().try_for_each(take));
            let errno = done.map_or_else(|err| err.raw_os_error().unwrap_or(1), |()| 0);
            // SAFETY: ends the child without running what the parent registered for its own end.
            unsafe { libc::_exit(errno) }
        }
        ForkResult::Parent { child } => match process::wait(child.as_raw())? {
            0 => Ok(()),
            errno => Err(Fault::new(Code::System, what(), std::io::Error::from_raw_os_error(errno))),
        },
    }
}

fn take(step: &Step) -> std::io::Result<()> {
    match step {
        // libcontainer may have made it.
        Step::Link(path, to) => match symlink(to, path) {
            Err(err) if err.kind() != std::io::ErrorKind::AlreadyExists => Err(err),
            _ => Ok(()),
        },
        Step::Close(path) => set(path, libc::MOUNT_ATTR_RDONLY, 0, true),
        Step::Propagate(path, kind, below) => match set(path, 0, *kind, *below) {
            // A later mount lies over it: nobody in the container gets there.
            Err(err) if [Some(libc::ENOENT), Some(libc::EINVAL)].contains(&err.raw_os_error()) => Ok(()),
            done => done,
        },
    }
}

fn set(path: &Path, attributes: u64, propagation: u64, below: bool) -> std::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation, userns_fd: 0 };
    let flags = libc::AT_SYMLINK_NOFOLLOW | if below { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path ends with a NUL and the attributes have the size that is passed; both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use oci_spec::runtime::MountBuilder;

    use super::*;

    #[test]
    fn the_last_word_on_propagation_counts() {
        let of = |options: &[&str]| {
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            propagation(&MountBuilder::default().destination("/a").options(options).build().expect("a mount"))
        };
        assert_eq!(of(&["rbind", "rprivate", "rw"]), Some((libc::MS_PRIVATE, true)));
        assert_eq!(of(&["rprivate", "slave"]), Some((libc::MS_SLAVE, false)));
        assert_eq!(of(&["rbind", "rshared"]), None);
        assert_eq!(of(&["ro"]), None);
    }
}
