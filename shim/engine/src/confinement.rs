//! What the live spec hides from a container or makes read-only, its mounts included, against what a rebuilt one sees.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use baton_rooted::Rooted;
use nix::sys::stat::{fstat, makedev};

use crate::bundle::Bundle;
use crate::external::{masked_paths, readonly_paths, resolve};
use crate::mount_table::{self, Mounted};

/// Compares the mounts of process `pid` with the live spec's masked and read-only paths.
///
/// # Errors
/// `RESTORE_STATE` naming the first path that is open to the container and should not be.
pub(crate) fn check(bundle: &Bundle, pid: i32) -> Result<()> {
    let table = mount_table::of(pid)?;
    let root_path = PathBuf::from(format!("/proc/{pid}/root"));
    let root = Rooted::open(&root_path).attempt(|| format!("open {}", root_path.display()))?;
    let read_only_root = bundle.spec.root().as_ref().and_then(|root| root.readonly()).unwrap_or(false);
    if read_only_root && !is_read_only(&table, Path::new("/")) {
        return Err(open(Path::new("/"), "can be written"));
    }
    for mount in bundle.mounts() {
        let wanted = mount.options().iter().flatten().any(|option| option == "ro");
        let point = resolve(&bundle.rootfs, mount.destination())?;
        if wanted && !is_read_only(&table, &point) {
            return Err(open(&point, "can be written"));
        }
    }
    for path in masked_paths(bundle) {
        let Ok(place) = root.find(path) else { continue };
        let stat =
            fstat(place.as_raw_fd()).map_err(std::io::Error::from).attempt(|| format!("look at {}", path.display()))?;
        let null = stat.st_mode & libc::S_IFMT == libc::S_IFCHR && stat.st_rdev == makedev(1, 3);
        if !null && !is_empty_cover(&table, path) {
            return Err(open(path, "is not masked"));
        }
    }
    for path in readonly_paths(bundle) {
        if root.find(path).is_ok() && !is_read_only(&table, path) {
            return Err(open(path, "can be written"));
        }
    }
    Ok(())
}

fn open(path: &Path, what: &str) -> Fault {
    Fault::new(
        Code::RestoreState,
        format_args!("check {} in the restored container", path.display()),
        format_args!("it {what}, against the live spec"),
    )
    .advise("create the container with the masked and read-only paths that the saved one had")
}

/// What is mounted last on a path is what is seen there.
fn top<'a>(table: &'a [Mounted], path: &Path) -> Option<&'a Mounted> {
    table.iter().rfind(|mounted| mounted.point == path)
}

fn is_read_only(table: &[Mounted], path: &Path) -> bool {
    top(table, path).is_some_and(|mounted| mounted.read_only)
}

fn is_empty_cover(table: &[Mounted], path: &Path) -> bool {
    top(table, path).is_some_and(|mounted| mounted.filesystem == "tmpfs" && mounted.read_only)
}
