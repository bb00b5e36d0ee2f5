//! Sources of bind mounts, for a container with a user namespace. libcontainer 0.7 looks for them when its root is a
//! mapped user already, who may not pass folders that are the host root's alone; containerd keeps the files that it
//! mounts into pods below one. So each is bound to a place that everybody can reach, in a mount namespace of this
//! process's own: the host sees none of it, and the container leaves it behind when it moves to its root filesystem.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use libcontainer::syscall::SyscallError;
use libcontainer::syscall::linux::{
    AT_EMPTY_PATH, AT_RECURSIVE, MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH, MountAttr,
};
use libcontainer::syscall::syscall::SyscallType;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use oci_spec::runtime::{LinuxIdMapping, LinuxNamespaceType, Mount, Spec};

use crate::bundle::{Bundle, is_bind};

/// Who can reach it may pass, and see nothing.
const PASS: u32 = 0o711;

/// The places of the sources. They go with the value; the mount namespace stays.
#[derive(Debug)]
pub(crate) struct Sources {
    folder: PathBuf,
    /// Destination, source, and the source's place.
    places: Vec<(PathBuf, PathBuf, PathBuf)>,
}

impl Sources {
    /// Binds the sources of a bundle's mounts, if its container has a user namespace. This process must have one thread.
    ///
    /// # Errors
    /// `SYSTEM` or `FILE`.
    pub(crate) fn of(bundle: &Bundle) -> Result<Option<Sources>> {
        if bundle.namespace(LinuxNamespaceType::User).is_none() {
            return Ok(None);
        }
        let folder = bundle.path.join("sources");
        own_namespace(&folder).attempt(|| format!("make {} for the sources of bind mounts", folder.display()))?;
        let mut sources = Sources { folder, places: Vec::new() };
        for mount in bundle.mounts().iter().filter(|mount| is_bind(mount)) {
            sources.add(bundle, mount)?;
        }
        Ok(Some(sources))
    }

    fn add(&mut self, bundle: &Bundle, mount: &Mount) -> Result<()> {
        // libcontainer says it of one that does not exist.
        let Some(source) = mount.source().as_ref().filter(|source| source.is_absolute() && source.exists()) else {
            return Ok(());
        };
        let place = self.folder.join(self.places.len().to_string());
        let what = || format!("bind {} to {}", source.display(), place.display());
        let made = if source.is_dir() { fs::create_dir(&place) } else { File::create(&place).map(drop) };
        made.attempt(what)?;
        match owners(bundle, mount) {
            Owners::Own => bind(source, &place, has(mount, "rbind")).attempt(what)?,
            Owners::Shifted(namespace) => {
                let namespace = File::open(namespace).attempt(|| format!("open {}", namespace.display()))?;
                shift(mount, source, &place, &namespace).map_err(|err| {
                    Fault::new(Code::System, format!("shift the owners of the files in {}", source.display()), err)
                        .advise("its file system must know id-mapped mounts, as ext4, xfs and btrfs do")
                })?;
            }
            // libcontainer says that it cannot.
            Owners::Others => return Ok(()),
        }
        self.places.push((mount.destination().clone(), source.clone(), place));
        Ok(())
    }

    /// Has a spec's mounts take their sources from their places.
    pub(crate) fn put_into(&self, spec: &mut Spec) {
        let mut mounts = spec.mounts().clone().unwrap_or_default();
        for mount in mounts.iter_mut().filter(|mount| is_bind(mount)) {
            let of = |place: &&(PathBuf, PathBuf, PathBuf)| {
                place.0 == *mount.destination() && Some(&place.1) == mount.source().as_ref()
            };
            let Some((_, _, place)) = self.places.iter().find(of) else { continue };
            let mut options = mount.options().clone().unwrap_or_default();
            options.retain(|option| option != "idmap" && option != "ridmap");
            mount.set_source(Some(place.clone())).set_options(Some(options));
            mount.set_uid_mappings(None).set_gid_mappings(None);
        }
        spec.set_mounts(Some(mounts));
    }
}

/// How a mount shows the owners of its files.
enum Owners<'a> {
    /// As they are.
    Own,
    /// Shifted by this user namespace, which is the container's.
    Shifted(&'a Path),
    /// In another way.
    Others,
}

fn owners<'a>(bundle: &'a Bundle, mount: &Mount) -> Owners<'a> {
    let asked = has(mount, "idmap") || has(mount, "ridmap");
    let own = bundle.spec.linux().as_ref();
    match (mount.uid_mappings(), mount.gid_mappings(), bundle.namespace(LinuxNamespaceType::User)) {
        (None, None, _) if !asked => Owners::Own,
        (users, groups, Some(Some(namespace)))
            if own.is_some_and(|own| is_of(users, own.uid_mappings()) && is_of(groups, own.gid_mappings())) =>
        {
            Owners::Shifted(namespace)
        }
        _ => Owners::Others,
    }
}

/// Whether a mount's mapping is the container's; one that is not said is.
fn is_of(mapping: &Option<Vec<LinuxIdMapping>>, own: &Option<Vec<LinuxIdMapping>>) -> bool {
    mapping.is_none() || mapping == own
}

/// Binds a source to a place where it shows its owners shifted.
fn shift(mount: &Mount, source: &Path, place: &Path, namespace: &File) -> std::result::Result<(), SyscallError> {
    let (kernel, below) = (SyscallType::Linux.create_syscall(), |option| match has(mount, option) {
        true => AT_RECURSIVE,
        false => 0,
    });
    let source = source.to_str().ok_or(SyscallError::Nix(Errno::EINVAL))?;
    let flags = libc::OPEN_TREE_CLONE | libc::O_CLOEXEC.cast_unsigned() | below("rbind");
    let tree = kernel.open_tree(libc::AT_FDCWD, Some(source), flags)?;
    let userns_fd = u64::try_from(namespace.as_raw_fd()).map_err(|_| SyscallError::Nix(Errno::EBADF))?;
    let attributes = MountAttr { attr_set: libc::MOUNT_ATTR_IDMAP, attr_clr: 0, propagation: 0, userns_fd };
    let flags = AT_EMPTY_PATH | below("ridmap");
    kernel.mount_setattr(tree.as_fd(), Path::new(""), flags, &attributes, size_of::<MountAttr>())?;
    let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(place).map_err(SyscallError::IO)?;
    kernel.move_mount(tree.as_fd(), None, place.as_fd(), None, MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH)
}

impl Drop for Sources {
    fn drop(&mut self) {
        // Best effort: the mounts end with this process, the folder with its bundle.
        let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Takes this process to a mount namespace of its own, with an empty tmpfs on a folder.
fn own_namespace(folder: &Path) -> std::io::Result<()> {
    let none = None::<&str>;
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(PASS))?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), folder, Some("tmpfs"), flags, Some(format!("mode={PASS:o}").as_str()))?;
    Ok(())
}

fn bind(source: &Path, place: &Path, below: bool) -> std::io::Result<()> {
    let flags = MsFlags::MS_BIND | if below { MsFlags::MS_REC } else { MsFlags::empty() };
    mount(Some(source), place, None::<&str>, flags, None::<&str>)?;
    Ok(())
}

fn has(mount: &Mount, word: &str) -> bool {
    mount.options().iter().flatten().any(|option| option == word)
}

#[cfg(test)]
mod tests {
    use oci_spec::runtime::{MountBuilder, SpecBuilder};

    use super::*;

    #[test]
    fn mounts_take_their_sources_from_their_places() {
        let mount = |destination: &str, source: &str, kind: &str, option: &str| {
            let base = MountBuilder::default().destination(destination).source(source).typ(kind);
            base.options(vec![option.to_owned()]).build().expect("a mount")
        };
        let mounts = vec![
            mount("/x", "/a", "bind", "ridmap"),
            mount("/y", "/a", "bind", "rbind"),
            mount("/z", "/a", "bind", "rbind"),
            mount("/x", "/a", "ext4", "ro"),
        ];
        let mut spec = SpecBuilder::default().mounts(mounts).build().expect("a spec");
        let places = vec![("/y".into(), "/a".into(), "/s/1".into()), ("/x".into(), "/a".into(), "/s/0".into())];
        let sources = Sources { folder: "/nowhere/s".into(), places };
        sources.put_into(&mut spec);
        let mounts: Vec<_> = spec.mounts().iter().flatten().collect();
        let placed: Vec<_> = mounts.iter().filter_map(|mount| mount.source().clone()).collect();
        assert_eq!(placed, ["/s/0", "/s/1", "/a", "/a"].map(PathBuf::from));
        assert!(!has(mounts[0], "ridmap") && has(mounts[1], "rbind"));
    }
}
