//! The device nodes in `/dev` of a rebuilt container. CRIU fills the tmpfs there from the image, with the nodes of
//! the machine that saved; what counts is the live spec.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use baton_rooted::Rooted;
use libcontainer::rootfs::utils::default_devices;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstatat, makedev, mknodat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, unlinkat};
use oci_spec::runtime::{LinuxDevice, LinuxDeviceType};

use crate::bundle::Bundle;

/// Most entries of `/dev` that are looked at, and how deep.
const ENTRIES_MAX: usize = 4096;
const DEPTH_MAX: usize = 8;

/// Mode of a node when the spec gives none: runc's.
const MODE: u32 = 0o666;

/// A node that the live spec wants.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    kind: SFlag,
    number: u64,
    mode: u32,
    uid: u32,
    gid: u32,
}

/// Makes the device nodes of the container with first process `pid` those of its live spec.
///
/// # Errors
/// `RESTORE_STATE` when its `/dev` is of a form that cannot be put right.
pub(crate) fn make_those_of(bundle: &Bundle, pid: i32) -> Result<()> {
    let own = |mount: &&oci_spec::runtime::Mount| mount.destination() == Path::new("/dev");
    if bundle.mounts().iter().find(own).is_none_or(|mount| mount.typ().as_deref() != Some("tmpfs")) {
        // The host's /dev is mounted there, which is not the container's to change.
        return Ok(());
    }
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let dev = Rooted::open(&root)
        .and_then(|root| root.find(Path::new("dev")))
        .and_then(|dev| Rooted::open(&fd_path(&dev)))
        .attempt(|| format!("open /dev of process {pid}"))?;
    let mounted: Vec<PathBuf> =
        bundle.mounts().iter().filter_map(|mount| below_dev(mount.destination())).map(Path::to_owned).collect();
    put_right(&dev, &wanted(bundle)?, &mounted)
}

fn fd_path(fd: &std::os::fd::OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn below_dev(path: &Path) -> Option<&Path> {
    path.strip_prefix("/dev").ok().filter(|below| !below.as_os_str().is_empty())
}

/// The nodes of the spec, and those that every container has, by path below `/dev`.
fn wanted(bundle: &Bundle) -> Result<BTreeMap<PathBuf, Node>> {
    let of_spec = bundle.spec.linux().as_ref().and_then(|linux| linux.devices().as_deref()).unwrap_or_default();
    let mut nodes = BTreeMap::new();
    for device in default_devices().iter().chain(of_spec) {
        let refuse =
            |why: &str| Fault::new(Code::Bundle, format_args!("device {} of the spec", device.path().display()), why);
        let below = below_dev(device.path()).ok_or_else(|| refuse("not below /dev"))?;
        nodes.insert(below.to_owned(), node(device).ok_or_else(|| refuse("no character or block device"))?);
    }
    Ok(nodes)
}

fn node(device: &LinuxDevice) -> Option<Node> {
    let kind = match device.typ() {
        LinuxDeviceType::C | LinuxDeviceType::U => SFlag::S_IFCHR,
        LinuxDeviceType::B => SFlag::S_IFBLK,
        LinuxDeviceType::A | LinuxDeviceType::P => return None,
    };
    let number = makedev(u64::try_from(device.major()).ok()?, u64::try_from(device.minor()).ok()?);
    let mode = device.file_mode().unwrap_or(MODE) & 0o7777;
    Some(Node { kind, number, mode, uid: device.uid().unwrap_or(0), gid: device.gid().unwrap_or(0) })
}

fn put_right(dev: &Rooted, wanted: &BTreeMap<PathBuf, Node>, mounted: &[PathBuf]) -> Result<()> {
    let mut seen = 0;
    remove_unwanted(dev, Path::new(""), wanted, mounted, DEPTH_MAX, &mut seen)?;
    for (path, node) in wanted {
        if !mounted.contains(path) {
            make(dev, path, node).attempt(|| format!("make device node /dev/{}", path.display()))?;
        }
    }
    Ok(())
}

/// Removes every device node below `at` that is not exactly one of `wanted`.
fn remove_unwanted(
    dev: &Rooted,
    at: &Path,
    wanted: &BTreeMap<PathBuf, Node>,
    mounted: &[PathBuf],
    depth: usize,
    seen: &mut usize,
) -> Result<()> {
    let what = |path: &Path| format!("look at /dev/{}", path.display());
    let folder = match dev.folder(at) {
        // Another filesystem is mounted there: /dev/pts, /dev/shm, /dev/mqueue.
        Err(err) if err.raw_os_error() == Some(libc::EXDEV) => return Ok(()),
        folder => folder.attempt(|| what(at))?,
    };
    let names = names(&folder).attempt(|| what(at))?;
    *seen += names.len();
    if *seen > ENTRIES_MAX || depth == 0 {
        return Err(Fault::new(Code::RestoreState, "look at the container's /dev", "too many entries")
            .advise("use another image"));
    }
    for name in names {
        let path = at.join(&name);
        if mounted.contains(&path) {
            continue;
        }
        let stat = fstatat(folder.fd(), name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(std::io::Error::from)
            .attempt(|| what(&path))?;
        let kind = SFlag::from_bits_truncate(stat.st_mode & libc::S_IFMT);
        if kind == SFlag::S_IFDIR {
            remove_unwanted(dev, &path, wanted, mounted, depth - 1, seen)?;
        } else if kind == SFlag::S_IFCHR || kind == SFlag::S_IFBLK {
            let right = wanted.get(&path).is_some_and(|node| node.kind == kind && node.number == stat.st_rdev);
            if !right {
                unlinkat(folder.fd(), name.as_os_str(), UnlinkatFlags::NoRemoveDir)
                    .map_err(std::io::Error::from)
                    .attempt(|| format!("remove device node /dev/{}", path.display()))?;
            }
        }
    }
    Ok(())
}

fn names(folder: &Rooted) -> std::io::Result<Vec<std::ffi::OsString>> {
    use std::os::unix::ffi::OsStrExt;
    let fd = nix::unistd::dup(folder.fd().unwrap_or(-1))?;
    let mut dir = nix::dir::Dir::from_fd(fd)?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Makes a node unless it is there; whatever else has its name goes, unless it is a folder.
fn make(dev: &Rooted, path: &Path, node: &Node) -> std::io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let folder = dev.make_folders(parent)?;
    match fstatat(folder.fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) if stat.st_mode & libc::S_IFMT == node.kind.bits() && stat.st_rdev == node.number => return Ok(()),
        Ok(_) => unlinkat(folder.fd(), name, UnlinkatFlags::NoRemoveDir)?,
        Err(Errno::ENOENT) => {}
        Err(err) => return Err(err.into()),
    }
    let mode = Mode::from_bits_truncate(node.mode);
    mknodat(folder.fd(), name, node.kind, mode, node.number)?;
    let (uid, gid) = (Uid::from_raw(node.uid), Gid::from_raw(node.gid));
    fchownat(folder.fd(), name, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)?;
    // The name was made above, in a container in which nothing runs: it is no link.
    fchmodat(folder.fd(), name, mode, FchmodatFlags::FollowSymlink)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn null() -> Node {
        Node { kind: SFlag::S_IFCHR, number: makedev(1, 3), mode: 0o666, uid: 0, gid: 0 }
    }

    #[test]
    fn nodes_of_the_source_go_and_those_of_the_spec_come() {
        if !Uid::effective().is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("temporary folder");
        let dev = Rooted::open(dir.path()).expect("open");
        let stale = Node { number: makedev(1, 8), ..null() };
        for path in ["nvidia1", "caps/cap1", "null"] {
            make(&dev, Path::new(path), &stale).expect("make");
        }
        std::fs::write(dir.path().join("nvidia0"), "a file in the way").expect("write");
        let wanted = BTreeMap::from([(PathBuf::from("null"), null()), (PathBuf::from("nvidia0"), null())]);
        put_right(&dev, &wanted, &[]).expect("put right");
        assert!(!dir.path().join("nvidia1").exists());
        assert!(!dir.path().join("caps/cap1").exists());
        use std::os::unix::fs::MetadataExt;
        for name in ["null", "nvidia0"] {
            let meta = std::fs::symlink_metadata(dir.path().join(name)).expect(name);
            assert_eq!((meta.rdev(), meta.mode()), (makedev(1, 3), libc::S_IFCHR | 0o666), "{name}");
        }
    }

    #[test]
    fn a_folder_without_end_is_refused() {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir_all(dir.path().join("a/a/a/a/a/a/a/a/a/a/a/a")).expect("make");
        let dev = Rooted::open(dir.path()).expect("open");
        let fault = put_right(&dev, &BTreeMap::new(), &[]).expect_err("too deep");
        assert_eq!(fault.code, Code::RestoreState);
    }
}
