//! The root of the bed: the machine's own, seen through a mount namespace in which /run, /var and /tmp are others.
//!
//! Nothing of the machine is written: what is mounted is mounted on a tmpfs. The driver's root stays `/`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Fault, Result};
use baton_nodes::rootfs::{attach, cgroup_trees, pivot};
use nix::mount::MsFlags;
use nix::sched::{CloneFlags, unshare};

use crate::kit::{IN_BED, OWN_IN_BED};

/// Where the folder of the run is seen in the bed.
pub const SCRATCH_IN_BED: &str = "/run/baton-gpu-scratch";
/// What the bed has of its own at the top, or not at all.
const OWN: &[&str] = &["usr", "run", "var", "tmp", "proc", "sys", "dev", "lost+found", "swapfile"];
/// What of the machine's /run the driver uses.
const RUN_OF_DRIVER: &[&str] = &["nvidia", "nvidia-persistenced", "nvidia-fabricmanager"];

/// Moves the calling process, which has one thread, into namespaces of its own and makes the bed its root. `scratch` is
/// a folder on disk; `loader` and `libraries` are those that programs get which load the driver's.
pub fn enter(kit: &Path, scratch: &Path, loader: &Path, libraries: &Path) -> Result<()> {
    let apart =
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWCGROUP;
    unshare(apart).map_err(|errno| Fault::io("make namespaces", &errno.into()))?;
    // In a chroot this fails, and nothing may be mounted: it could be seen by the machine.
    attach(None, Path::new("/"), None, MsFlags::MS_PRIVATE | MsFlags::MS_REC, "")
        .map_err(|fault| fault.advise("run it where / is no chroot"))?;
    let root = scratch.join("root");
    make(&root)?;
    attach(Some("tmpfs".as_ref()), &root, Some("tmpfs"), MsFlags::empty(), "mode=755")?;
    spread(Path::new("/"), &root, OWN)?;
    // Baton gives CRIU no other PATH than the usual folders, of which this one is first.
    spread(Path::new("/usr"), &root.join("usr"), &["local"])?;
    spread(Path::new("/usr/local"), &root.join("usr/local"), &["bin"])?;
    take_over(&kit.join("bin"), &root.join("usr/local/bin"))?;
    for name in ["proc", "dev"] {
        take_over(&Path::new("/").join(name), &root.join(name))?;
    }
    let strict = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    make(&root.join("sys"))?;
    attach(Some("sysfs".as_ref()), &root.join("sys"), Some("sysfs"), strict, "")?;
    cgroup_trees(false, &root.join("sys/fs/cgroup"))?;
    for name in ["run/lock", "var/log", "var/tmp", "var/lib", "tmp"] {
        make(&root.join(name))?;
    }
    symlink("/run", root.join("var/run")).attempt(|| "link /var/run")?;
    for name in RUN_OF_DRIVER {
        let from = Path::new("/run").join(name);
        if from.exists() {
            take_over(&from, &root.join("run").join(name))?;
        }
    }
    // Checkpoints on their way: on disk.
    let staging = scratch.join("staging");
    make(&staging)?;
    take_over(&staging, &root.join("var/lib/baton"))?;
    let here = root.join(SCRATCH_IN_BED.trim_start_matches('/'));
    make(&here)?;
    // Without what is mounted below, which is the bed.
    attach(Some(scratch), &here, None, MsFlags::MS_BIND, "")?;
    take_over(kit, &root.join(IN_BED.trim_start_matches('/')))?;
    let own = root.join(OWN_IN_BED.trim_start_matches('/'));
    make(&own)?;
    symlink(in_bed(kit, loader), own.join("ld.so")).attempt(|| "link the loader")?;
    symlink(in_bed(kit, libraries), own.join("lib")).attempt(|| "link the libraries")?;
    // Settings of another Baton on the machine are not ours.
    if Path::new("/etc/baton").is_dir() {
        attach(Some("tmpfs".as_ref()), &root.join("etc/baton"), Some("tmpfs"), MsFlags::empty(), "mode=755")?;
    }
    pivot(&root)
}

/// Where a path of the kit, or of the machine, is in the bed.
fn in_bed(kit: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(kit).map_or_else(|_| path.to_owned(), |below| Path::new(IN_BED).join(below))
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).attempt(|| format!("make {}", folder.display()))
}

/// Shows all that is in the folder `from`, if there is one, in the folder `to`, but for these names.
fn spread(from: &Path, to: &Path, but: &[&str]) -> Result<()> {
    make(to)?;
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(|name| but.contains(&name)) {
            take_over(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Shows what is at `from`, with all that is mounted below, at `to` too.
fn take_over(from: &Path, to: &Path) -> Result<()> {
    let kind = fs::symlink_metadata(from).attempt(|| format!("look at {}", from.display()))?.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(from).attempt(|| format!("read {}", from.display()))?;
        return symlink(target, to).attempt(|| format!("link {}", to.display()));
    }
    if kind.is_dir() {
        make(to)?;
    } else {
        fs::write(to, "").attempt(|| format!("make {}", to.display()))?;
    }
    attach(Some(from), to, None, MsFlags::MS_BIND | MsFlags::MS_REC, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_the_kit_is_found_again_where_the_kit_is_seen() {
        let kit = Path::new("/home/me/kit");
        assert_eq!(in_bed(kit, Path::new("/home/me/kit/lib/ld.so")), Path::new("/run/baton-gpu-kit/lib/ld.so"));
        assert_eq!(in_bed(kit, Path::new("/lib64/ld.so")), Path::new("/lib64/ld.so"));
    }
}
