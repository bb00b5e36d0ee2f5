//! The cgroup filesystems in a new container. libcontainer mounts those of version 1 writable whatever the spec says;
//! here they become read-only where the spec wants that, before the program runs.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::sched::{CloneFlags, setns};
use nix::unistd::{ForkResult, fork};

use crate::bundle::Bundle;
use crate::external::{is_cgroup, resolve};
use crate::{mount_table, process};

/// Makes the cgroup mounts of the created container with first process `pid` read-only where the spec says `ro`.
pub(crate) fn protect(bundle: &Bundle, pid: i32) -> Result<()> {
    let read_only = |mount: &&oci_spec::runtime::Mount| mount.options().iter().flatten().any(|option| option == "ro");
    for mount in bundle.mounts().iter().filter(|mount| is_cgroup(mount)).filter(read_only) {
        let point = resolve(&bundle.rootfs, mount.destination())?;
        let open = |m: &mount_table::Mounted| m.point.starts_with(&point) && !m.read_only;
        if mount_table::of(pid)?.iter().any(open) {
            close(pid, &point)?;
        }
    }
    Ok(())
}

/// A mount can be changed only from its own namespace, so a child of ours goes there.
fn close(pid: i32, point: &Path) -> Result<()> {
    let what = || format!("make {} of process {pid} read-only", point.display());
    let namespace = File::open(format!("/proc/{pid}/ns/mnt")).attempt(what)?;
    let path = CString::new(point.as_os_str().as_bytes()).map_err(std::io::Error::from).attempt(what)?;
    // SAFETY: this program has one thread, so the child may run any code.
    match unsafe { fork() }.map_err(std::io::Error::from).attempt(what)? {
        ForkResult::Child => {
            let done = setns(&namespace, CloneFlags::CLONE_NEWNS).map_err(std::io::Error::from);
            let errno = match done.and_then(|()| set_read_only(&path)) {
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

fn set_read_only(path: &CString) -> std::io::Result<()> {
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
