//! The mask over `/proc/driver/nvidia/params`.
//!
//! With `ModifyDeviceFiles: 1` the driver's libraries would make `/dev/nvidiaN` nodes in the container by
//! themselves. The container sees a copy that says 0; the copy lies in the bundle, on containerd's tmpfs, and
//! is bound over the file, read-only.
//!
//! Known limit: this is one more bind mount in the container, which CRIU must be told of when the container is
//! saved. A file named [`COPY`] in the bundle says that it is there.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

use baton_rooted::Rooted;

/// Name of the masked copy in the bundle.
const COPY: &str = "nvidia-params";
/// The file to be masked, below the root filesystem.
const PARAMS: &str = "proc/driver/nvidia/params";
/// Largest parameter file that is read, in bytes; the driver's has some 2 KiB.
const PARAMS_MAX: u64 = 64 << 10;

/// Masks the parameters in the container; nothing to do where the driver shows none there.
///
/// # Errors
/// Of the call that failed.
pub fn mask(rootfs: &Rooted, bundle: &Path) -> Result<()> {
    let masking = || format!("mask /{PARAMS} in the container");
    let target = match rootfs.get(Path::new(PARAMS), OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK) {
        Ok(target) => target,
        Err(err) if err.raw_os_error() == Some(Errno::ENOENT as i32) => return Ok(()),
        Err(err) => return Err(Fault::io(masking(), &err)),
    };
    // An image may bring a file of that name; without a /proc over it, it is only a file.
    if fstatfs(&target).map_err(|errno| Fault::io(masking(), &errno.into()))?.filesystem_type() != PROC_SUPER_MAGIC {
        return Ok(());
    }
    cover(target, &bundle.join(COPY)).map_err(|fault| fault.during(masking()))
}

/// Binds a masked copy of `target`, written to `copy`, over it.
fn cover(target: OwnedFd, copy: &Path) -> Result<()> {
    let place = format!("/proc/self/fd/{}", target.as_raw_fd());
    let mut text = String::new();
    let mut source = File::from(target);
    (&mut source).take(PARAMS_MAX + 1).read_to_string(&mut text).attempt(|| "read the driver's parameters")?;
    if text.len() as u64 > PARAMS_MAX {
        return Err(Fault::new(Code::System, "read the driver's parameters", format!("more than {PARAMS_MAX} bytes")));
    }
    let _ = std::fs::remove_file(copy);
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o444)
        .open(copy)
        .and_then(|mut file| file.write_all(masked(&text).as_bytes()))
        .attempt(|| format!("write {}", copy.display()))?;
    let locked = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let bind = |flags| mount(Some(copy), place.as_str(), None::<&str>, flags, None::<&str>);
    bind(MsFlags::MS_BIND).map_err(|errno| Fault::io("bind the copy", &errno.into()))?;
    // The descriptor still names the file below; the remount must name the mount above it.
    let above = std::fs::read_link(&place).attempt(|| "find the file's path")?;
    mount(None::<&str>, &above, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | locked, None::<&str>)
        .map_err(|errno| Fault::io("make the copy read-only", &errno.into()))
}

/// The parameters with `ModifyDeviceFiles` off.
fn masked(params: &str) -> String {
    params
        .lines()
        .map(|line| match line.split_once(':') {
            Some(("ModifyDeviceFiles", _)) => "ModifyDeviceFiles: 0\n".to_owned(),
            _ => format!("{line}\n"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::{CloneFlags, unshare};

    #[test]
    fn only_the_one_parameter_changes() {
        let params = "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileUID: 0\nRegistryDwords: \"a:b\"\n";
        assert_eq!(
            masked(params),
            "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 0\nDeviceFileUID: 0\nRegistryDwords: \"a:b\"\n"
        );
    }

    #[test]
    fn a_file_of_the_image_is_left_alone() {
        let tree = tempfile::tempdir().expect("tree");
        let file = tree.path().join(PARAMS);
        std::fs::create_dir_all(file.parent().expect("parent")).expect("dirs");
        std::fs::write(&file, "ModifyDeviceFiles: 1\n").expect("file");
        mask(&Rooted::open(tree.path()).expect("root"), tree.path()).expect("nothing to do");
        assert!(!tree.path().join(COPY).exists());
    }

    #[test]
    fn the_copy_covers_the_file_and_cannot_be_written() {
        // A thread of its own, because a mount namespace of its own.
        std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).expect("root may make a mount namespace");
            mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
                .expect("private");
            let tree = tempfile::tempdir().expect("tree");
            let file = tree.path().join("params");
            std::fs::write(&file, "ModifyDeviceFiles: 1\nInitializeSystemMemoryAllocations: 1\n").expect("file");
            let opened = File::open(&file).expect("open");
            cover(opened.into(), &tree.path().join(COPY)).expect("covered");
            let seen = std::fs::read_to_string(&file).expect("read");
            assert_eq!(seen, "ModifyDeviceFiles: 0\nInitializeSystemMemoryAllocations: 1\n");
            let refused = std::fs::OpenOptions::new().write(true).open(&file).expect_err("read-only");
            assert_eq!(refused.raw_os_error(), Some(Errno::EROFS as i32));
            nix::mount::umount2(&file, nix::mount::MntFlags::MNT_DETACH).expect("clean up");
        })
        .join()
        .expect("thread");
    }
}
