//! The cgroup filesystems in a new container. libcontainer mounts those of version 1 writable whatever the spec says;
//! here they become read-only where the spec wants that, before the program runs. And a hierarchy with several
//! controllers is found under each one's name.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::sched::{CloneFlags, setns};
use nix::unistd::{ForkResult, fork};

use crate::bundle::Bundle;
use crate::external::{is_cgroup, resolve};
use crate::{mount_table, process};

/// Finishes the cgroup mounts of the created container with first process `pid`.
pub(crate) fn finish(bundle: &Bundle, pid: i32) -> Result<()> {
    for mount in bundle.mounts().iter().filter(|mount| is_cgroup(mount)) {
        let point = resolve(&bundle.rootfs, mount.destination())?;
        let inside = mount_table::of(pid)?;
        let inside: Vec<_> = inside.iter().filter(|mounted| mounted.point.starts_with(&point)).collect();
        let names = inside.iter().filter_map(|mounted| mounted.point.strip_prefix(&point).ok()?.to_str());
        let shared: Vec<&str> = names.filter(|name| name.contains(',')).collect();
        let closed = mount.options().iter().flatten().any(|option| option == "ro");
        let close = closed && inside.iter().any(|mounted| !mounted.read_only);
        if close || !shared.is_empty() {
            within(pid, &point, || {
                shared.iter().try_for_each(|name| link(&point, name))?;
                if close { set_read_only(&point) } else { Ok(()) }
            })?;
        }
    }
    Ok(())
}

/// A mount can be changed only from its own namespace, so a child of ours goes there.
fn within(pid: i32, point: &Path, work: impl FnOnce() -> std::io::Result<()>) -> Result<()> {
    let what = || format!("finish the mount {} of process {pid}", point.display());
    let namespace = File::open(format!("/proc/{pid}/ns/mnt")).attempt(what)?;
    // SAFETY: this program has one thread, so the child may run any code.
    match unsafe { fork() }.map_err(std::io::Error::from).attempt(what)? {
        ForkResult::Child => {
            let done = setns(&namespace, CloneFlags::CLONE_NEWNS).map_err(std::io::Error::from);
            let errno = match done.and_then(|()| work()) {
                Ok(()) => 0,
                Err(err) => err.raw_os_error().unwrap_or(1),
            };
            // SAFETY: ends the child without running what the parent registered for its own end.
            unsafe { libc::_exit(errno) }
        }
        ForkResult::Parent { child } => match process::wait(child.as_raw())? {
            0 => Ok(()),
            errno => Err(Fault::new(Code::System, what(), std::io::Error::from_raw_os_error(errno))),
        },
    }
}

/// Links of the names in `cpu,cpuacct` to it; libcontainer may have made them.
fn link(point: &Path, name: &str) -> std::io::Result<()> {
    name.split(',').try_for_each(|part| match symlink(name, point.join(part)) {
        Err(err) if err.kind() != std::io::ErrorKind::AlreadyExists => Err(err),
        _ => Ok(()),
    })
}

fn set_read_only(path: &Path) -> std::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_RECURSIVE | libc::AT_SYMLINK_NOFOLLOW;
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
