//! The namespaces of a rebuilt container, against those that its live spec asks for.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::sched::{CloneFlags, setns};
use oci_spec::runtime::LinuxNamespaceType;

use crate::bundle::Bundle;

/// Kinds that are compared, by their names in `/proc/PID/ns`. CRIU gives every tree a time namespace of its own.
const KINDS: &[(LinuxNamespaceType, &str)] = &[
    (LinuxNamespaceType::Pid, "pid"),
    (LinuxNamespaceType::Ipc, "ipc"),
    (LinuxNamespaceType::Uts, "uts"),
    (LinuxNamespaceType::Mount, "mnt"),
    (LinuxNamespaceType::Network, "net"),
    (LinuxNamespaceType::User, "user"),
    (LinuxNamespaceType::Cgroup, "cgroup"),
];

/// Compares the namespaces of process `pid` with those that the live spec asks for.
///
/// # Errors
/// `RESTORE_STATE` naming the first that differs.
pub(crate) fn check(bundle: &Bundle, pid: i32) -> Result<()> {
    for (kind, name) in KINDS {
        let has = identity(Path::new(&format!("/proc/{pid}/ns/{name}")))?;
        let ours = identity(Path::new(&format!("/proc/self/ns/{name}")))?;
        // Of the mount namespace we have a private copy ourselves.
        let right = match bundle.namespace(*kind) {
            Some(Some(path)) => has == identity(path)?,
            Some(None) => has != ours,
            None => has == ours,
        };
        if !right {
            return Err(Fault::new(
                Code::RestoreState,
                format_args!("check the {name} namespace of the restored container"),
                "it is not the one that the live spec asks for",
            )
            .advise("create the container with the namespaces that the saved one had"));
        }
    }
    Ok(())
}

fn identity(path: &Path) -> Result<(u64, u64)> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).attempt(|| format!("look at {}", path.display()))
}

/// Sets the host name that the live spec gives in the container's own UTS namespace.
pub(crate) fn set_host_name(bundle: &Bundle, pid: i32) -> Result<()> {
    let (Some(name), Some(None)) = (bundle.spec.hostname(), bundle.namespace(LinuxNamespaceType::Uts)) else {
        return Ok(());
    };
    let what = || format!("set the host name to {name}");
    let theirs = File::open(format!("/proc/{pid}/ns/uts")).attempt(what)?;
    let ours = File::open("/proc/self/ns/uts").attempt(what)?;
    let enter = |file: &File| setns(file, CloneFlags::CLONE_NEWUTS).map_err(std::io::Error::from).attempt(what);
    enter(&theirs)?;
    let done = nix::unistd::sethostname(name).map_err(std::io::Error::from).attempt(what);
    enter(&ours)?;
    done
}
