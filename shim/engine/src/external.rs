//! What of a container belongs to the host: its bind mounts, its cgroup mounts, the `/dev/null` over masked files,
//! its network namespace. CRIU does not save these; whoever restores brings them, from the live spec.
//!
//! A mount is known in the image by its path in the container, a masked file by `/dev/null`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_criu::{DumpedMount, External};
use baton_fault::{Attempt, Code, Fault, Result};
use oci_spec::runtime::{LinuxNamespaceType, Mount};

use crate::bundle::{Bundle, is_bind};
use crate::cgroup::Cgroup;
use crate::mount_table::{self, Mounted};

/// Key of a masked file in the image, and what lies over it.
const MASK: &str = "/dev/null";

/// Key of the network namespace in the image: runc's.
pub(crate) const NET_KEY: &str = "extRootNetNS";

/// Key of a pid namespace that was given by its path: runc's.
pub(crate) const PID_KEY: &str = "extRootPidNS";

/// Most symbolic links followed in the destination of a mount.
const LINKS_MAX: usize = 40;

/// What the running container with first process `pid` has of the host.
pub(crate) fn when_saving(bundle: &Bundle, cgroup: &Cgroup, pid: i32) -> Result<Vec<External>> {
    let mut externals = Vec::new();
    let binds = destinations(bundle, is_bind)?;
    let cgroups = if cgroup.is_unified() { Vec::new() } else { destinations(bundle, is_cgroup)? };
    let masked = masked_paths(bundle);
    for mounted in mount_table::of(pid)? {
        let point = &mounted.point;
        let external = if masked.contains(point.as_path()) && is_single_file(&mounted) {
            MASK.to_owned()
        } else if binds.iter().any(|(to, _)| point.starts_with(to))
            || (mounted.filesystem == "cgroup" && cgroups.iter().any(|(to, _)| point.starts_with(to)))
        {
            utf8(point)?
        } else {
            continue;
        };
        externals.push(External::Mount { from: utf8(point)?, to: external });
    }
    // A network is never saved; processes are, unless they share the numbers of others.
    let of_others = bundle.namespace(LinuxNamespaceType::Pid).flatten().is_some();
    let wanted =
        [("net", NET_KEY, bundle.namespace(LinuxNamespaceType::Network).is_some()), ("pid", PID_KEY, of_others)];
    for (kind, key, _) in wanted.into_iter().filter(|(_, _, external)| *external) {
        let path = format!("/proc/{pid}/ns/{kind}");
        let inode = fs::metadata(&path).attempt(|| format!("open {path}"))?.ino();
        externals.push(External::Namespace { kind, inode, key: key.to_owned() });
    }
    Ok(externals)
}

/// Where each external mount of the image comes from here. What the saved container had mounted must be what the
/// live spec mounts, neither more nor less.
///
/// # Errors
/// `RESTORE_MOUNT` naming the mount that one of the two lacks.
pub(crate) fn when_restoring(bundle: &Bundle, cgroup: &Cgroup, saved: &[DumpedMount]) -> Result<Vec<External>> {
    let live = destinations(bundle, |_| true)?;
    let masked = masked_paths(bundle);
    let readonly = readonly_paths(bundle);
    let mut externals = Vec::new();
    for mount in saved {
        let point = Path::new(&mount.mountpoint);
        let refuse = |why: String| {
            Err(Fault::new(Code::RestoreMount, format_args!("restore mount {}", mount.mountpoint), why)
                .advise("create the container with the mounts that the saved one had"))
        };
        match &mount.external {
            Some(key) if key == MASK => {
                if !masked.contains(point) {
                    return refuse("it was masked when saved; the live spec does not mask it".into());
                }
                let mask = External::Mount { from: MASK.into(), to: MASK.into() };
                if !externals.contains(&mask) {
                    externals.push(mask);
                }
            }
            Some(key) if *key == mount.mountpoint => match source(&live, cgroup, point) {
                Some(from) => externals.push(External::Mount { from: key.clone(), to: utf8(&from)? }),
                None => return refuse("the live spec has no such mount".into()),
            },
            Some(_) => return refuse("its key in the image is another path".into()),
            None => {
                let known = point == Path::new("/")
                    || readonly.contains(point)
                    || masked.contains(point) && mount.filesystem.name() == Some("tmpfs")
                    || is_console(bundle, point)
                    || live.iter().any(|(to, mount_of_spec)| {
                        to == point && !is_bind(mount_of_spec) && is_same_filesystem(mount_of_spec, mount)
                    });
                if !known {
                    return refuse("the live spec has no such mount".into());
                }
            }
        }
    }
    lacking(&live, saved)?;
    Ok(externals)
}

/// Refuses when the live spec mounts what the saved container had not.
fn lacking(live: &[(PathBuf, &Mount)], saved: &[DumpedMount]) -> Result<()> {
    for (to, _) in live {
        if !saved.iter().any(|mount| Path::new(&mount.mountpoint) == to) {
            return Err(Fault::new(
                Code::RestoreMount,
                format_args!("restore mount {}", to.display()),
                "the saved container had no such mount",
            )
            .advise("create the container with the mounts that the saved one had"));
        }
    }
    Ok(())
}

/// What the live spec mounts on `point`: the source of the bind mount at or above it, or the container's own group
/// of that cgroup controller.
fn source(live: &[(PathBuf, &Mount)], cgroup: &Cgroup, point: &Path) -> Option<PathBuf> {
    let above = live.iter().filter(|(to, _)| point.starts_with(to));
    let (to, mount) = above.max_by_key(|(to, _)| to.components().count())?;
    let below = point.strip_prefix(to).ok()?;
    if is_bind(mount) {
        let from = mount.source().as_ref()?;
        return Some(if below.as_os_str().is_empty() { from.clone() } else { from.join(below) });
    }
    if is_cgroup(mount) {
        return cgroup.hierarchy(below.to_str()?);
    }
    None
}

/// The destinations of the spec's mounts, as paths in the container without symbolic links.
fn destinations(bundle: &Bundle, wanted: impl Fn(&Mount) -> bool) -> Result<Vec<(PathBuf, &Mount)>> {
    let mounts = bundle.mounts().iter().filter(|mount| wanted(mount));
    mounts.map(|mount| Ok((resolve(&bundle.rootfs, mount.destination())?, mount))).collect()
}

/// `path` as it means inside `root`, with symbolic links followed there; parts that do not exist stay as they are.
pub(crate) fn resolve(root: &Path, path: &Path) -> Result<PathBuf> {
    use std::path::Component;
    let mut done = PathBuf::from("/");
    let mut left: Vec<std::ffi::OsString> = Vec::new();
    let push = |left: &mut Vec<std::ffi::OsString>, path: &Path| {
        left.extend(path.components().rev().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        }));
    };
    push(&mut left, path);
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        let below = next.strip_prefix("/").unwrap_or(&next);
        let Ok(target) = fs::read_link(root.join(below)) else {
            done = next;
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            return Err(Fault::new(
                Code::Bundle,
                format_args!("resolve mount {}", path.display()),
                "too many symbolic links",
            ));
        }
        if target.is_absolute() {
            done = PathBuf::from("/");
        }
        push(&mut left, &target);
    }
    Ok(done)
}

/// Whether a mount of the spec shows cgroups.
pub(crate) fn is_cgroup(mount: &Mount) -> bool {
    matches!(mount.typ().as_deref(), Some("cgroup" | "cgroup2"))
}

fn is_same_filesystem(live: &Mount, saved: &DumpedMount) -> bool {
    let Some(name) = saved.filesystem.name() else { return false };
    match live.typ().as_deref() {
        // With version 1 it is a tmpfs with one mount for each controller, with version 2 a cgroup2.
        Some("cgroup") => matches!(name, "tmpfs" | "cgroup" | "cgroup2"),
        typ => typ == Some(name),
    }
}

/// A terminal of the container is mounted on /dev/console.
fn is_console(bundle: &Bundle, point: &Path) -> bool {
    let terminal = bundle.spec.process().as_ref().and_then(|process| process.terminal()).unwrap_or(false);
    terminal && point == Path::new("/dev/console")
}

pub(crate) fn masked_paths(bundle: &Bundle) -> BTreeSet<&Path> {
    let linux = bundle.spec.linux().as_ref();
    linux.and_then(|linux| linux.masked_paths().as_ref()).into_iter().flatten().map(Path::new).collect()
}

pub(crate) fn readonly_paths(bundle: &Bundle) -> BTreeSet<&Path> {
    let linux = bundle.spec.linux().as_ref();
    linux.and_then(|linux| linux.readonly_paths().as_ref()).into_iter().flatten().map(Path::new).collect()
}

/// Whether not a whole filesystem is mounted there but one file of it.
fn is_single_file(mounted: &Mounted) -> bool {
    mounted.root != Path::new("/")
}

fn utf8(path: &Path) -> Result<String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Fault::new(Code::Criu, format_args!("name mount {} to CRIU", path.display()), "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_inside_the_root_only() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let root = dir.path();
        fs::create_dir_all(root.join("run")).expect("make");
        fs::create_dir_all(root.join("var")).expect("make");
        std::os::unix::fs::symlink("/run", root.join("var/run")).expect("link");
        std::os::unix::fs::symlink("../../../../etc", root.join("var/up")).expect("link");
        std::os::unix::fs::symlink("loop", root.join("loop")).expect("link");
        for (path, meant) in [
            ("/var/run/secrets", "/run/secrets"),
            ("/var/up/passwd", "/etc/passwd"),
            ("/a/../../b", "/b"),
            ("/plain/new", "/plain/new"),
        ] {
            assert_eq!(resolve(root, Path::new(path)).expect(path), Path::new(meant), "{path}");
        }
        assert!(resolve(root, Path::new("/loop")).is_err());
    }
}
