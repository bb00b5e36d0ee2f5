//! Links by which programs find a driver library: `libcuda.so.1` names `libcuda.so.<driver version>`.

use std::os::fd::AsRawFd;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::errno::Errno;
use nix::fcntl::{OFlag, readlinkat, renameat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

use baton_rooted::Rooted;

use crate::Link;

/// Makes one link inside the root filesystem.
///
/// A link that is right already stays. One with another target, left by an image that was made with another
/// driver, is replaced in one step.
///
/// # Errors
/// `BUNDLE` when something that is no link has the name, `SYSTEM` or `FILE` of the call that failed.
pub fn make(rootfs: &Rooted, link: &Link) -> Result<()> {
    let making = || format!("make the link {} in the container", link.path.display());
    let (Some(dir), Some(name)) = (link.path.parent(), link.path.file_name()) else {
        return Err(Fault::new(Code::Bundle, making(), "the path has no file name"));
    };
    let dir = rootfs.get(dir, OFlag::O_PATH | OFlag::O_DIRECTORY).attempt(making)?;
    let dir = Some(dir.as_raw_fd());
    match symlinkat(link.target.as_str(), dir, name) {
        Ok(()) => return Ok(()),
        Err(Errno::EEXIST) => {}
        Err(errno) => return Err(Fault::io(making(), &errno.into())),
    }
    match readlinkat(dir, name) {
        Ok(target) if target == link.target.as_str() => Ok(()),
        Ok(_) => replace(dir, Path::new(name), &link.target).map_err(|errno| Fault::io(making(), &errno.into())),
        Err(Errno::EINVAL) => Err(Fault::new(Code::Bundle, making(), "a file that is no link has that name")
            .advise("use an image that does not bring driver libraries of its own")),
        Err(errno) => Err(Fault::io(making(), &errno.into())),
    }
}

fn replace(dir: Option<i32>, name: &Path, target: &str) -> nix::Result<()> {
    let fresh = format!(".baton-{}", name.display());
    match unlinkat(dir, fresh.as_str(), UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno),
    }
    symlinkat(target, dir, fresh.as_str())?;
    renameat(dir, fresh.as_str(), dir, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn link(path: &str) -> Link {
        Link { path: path.into(), target: "libcuda.so.570.1".into() }
    }

    #[test]
    fn a_link_is_made_once_and_an_old_one_is_replaced() {
        let tree = tempfile::tempdir().expect("tree");
        let lib = tree.path().join("usr/lib");
        std::fs::create_dir_all(&lib).expect("lib");
        symlink("libcuda.so.535", lib.join("libcuda.so.2")).expect("old");
        let root = Rooted::open(tree.path()).expect("root");
        for name in ["libcuda.so.1", "libcuda.so.1", "libcuda.so.2"] {
            make(&root, &link(&format!("/usr/lib/{name}"))).expect(name);
            assert_eq!(std::fs::read_link(lib.join(name)).expect("link"), Path::new("libcuda.so.570.1"));
        }
        assert_eq!(std::fs::read_dir(&lib).expect("lib").count(), 2, "something half-made was left");
    }

    #[test]
    fn a_file_of_that_name_is_not_touched() {
        let tree = tempfile::tempdir().expect("tree");
        std::fs::write(tree.path().join("libcuda.so.1"), b"own").expect("file");
        let root = Rooted::open(tree.path()).expect("root");
        assert_eq!(make(&root, &link("/libcuda.so.1")).expect_err("refused").code, Code::Bundle);
        assert_eq!(std::fs::read(tree.path().join("libcuda.so.1")).expect("file"), b"own");
    }

    #[test]
    fn a_directory_link_that_leads_out_stays_inside() {
        let outside = tempfile::tempdir().expect("outside");
        let tree = tempfile::tempdir().expect("tree");
        symlink(outside.path(), tree.path().join("lib")).expect("escape");
        let root = Rooted::open(tree.path()).expect("root");
        make(&root, &link("/lib/libcuda.so.1")).expect_err("the directory does not exist inside");
        assert_eq!(std::fs::read_dir(outside.path()).expect("outside").count(), 0);
    }
}
