//! The files and folders that mounts lie on. A new container's are made when it is mounted; before a restore they
//! must exist in the root filesystem.

use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Result};
use baton_rooted::Rooted;
use oci_spec::runtime::Mount;

use crate::bundle::{Bundle, is_bind};
use crate::external::resolve;

/// Makes the mount points that the spec's mounts need, in the root filesystem mounted at `root` or in the host's
/// folder that is bound above them. Those on a filesystem that CRIU fills itself are left to it.
pub(crate) fn make(bundle: &Bundle, root: &Path) -> Result<()> {
    let mut placed: Vec<(PathBuf, &Mount)> = Vec::new();
    for mount in bundle.mounts() {
        let point = resolve(root, mount.destination())?;
        if point == Path::new("/") {
            continue;
        }
        if let Some((folder, below)) = lies_on(&placed, root, &point) {
            let what = || format!("make mount point {}", point.display());
            let rooted = Rooted::open(&folder).attempt(what)?;
            if takes_folder(mount) {
                rooted.make_folders(&below).map(drop).attempt(what)?;
            } else {
                rooted.make_file(&below).attempt(what)?;
            }
        }
        placed.push((point, mount));
    }
    Ok(())
}

/// The host's folder that `point` is in, and the path below it; `None` when a filesystem of the container's own
/// is mounted above it.
fn lies_on(placed: &[(PathBuf, &Mount)], root: &Path, point: &Path) -> Option<(PathBuf, PathBuf)> {
    let above = placed.iter().filter(|(other, _)| point != other && point.starts_with(other));
    match above.max_by_key(|(other, _)| other.components().count()) {
        None => Some((root.to_owned(), point.strip_prefix("/").ok()?.to_owned())),
        Some((other, mount)) if is_bind(mount) => {
            Some((mount.source().clone()?, point.strip_prefix(other).ok()?.to_owned()))
        }
        Some(_) => None,
    }
}

fn takes_folder(mount: &Mount) -> bool {
    !is_bind(mount) || mount.source().as_ref().is_none_or(|source| source.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use oci_spec::runtime::MountBuilder;

    fn mount(typ: &str, source: &str) -> Mount {
        MountBuilder::default().destination("/x").typ(typ).source(source).build().expect("mount")
    }

    #[test]
    fn a_point_lies_on_the_nearest_mount_above() {
        let (tmpfs, bind) = (mount("tmpfs", "tmpfs"), mount("bind", "/host/data"));
        let placed = vec![(PathBuf::from("/dev"), &tmpfs), (PathBuf::from("/data"), &bind)];
        let root = Path::new("/r");
        let on = |point: &str| lies_on(&placed, root, Path::new(point));
        assert_eq!(on("/etc/hosts"), Some(("/r".into(), "etc/hosts".into())));
        assert_eq!(on("/data/sub"), Some(("/host/data".into(), "sub".into())));
        assert_eq!(on("/dev/shm"), None);
        assert_eq!(on("/device"), Some(("/r".into(), "device".into())));
    }
}
