//! A directory tree whose links cannot lead out of it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};

/// How often a look-up is tried again when something in the tree was renamed meanwhile (`EAGAIN`).
const TRIES: usize = 16;

/// A directory that is the root of all look-ups below it: absolute links and `..` stay inside.
#[derive(Debug)]
pub struct Rooted {
    dir: OwnedFd,
    path: PathBuf,
}

impl Rooted {
    /// Opens the directory `path`, which itself is looked up as usual.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn open(path: &Path) -> io::Result<Rooted> {
        let fd = nix::fcntl::open(
            path,
            OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            nix::sys::stat::Mode::empty(),
        )?;
        // SAFETY: open(2) returned this descriptor to us alone.
        let dir = unsafe { OwnedFd::from_raw_fd(fd) };
        let path = real_path(&dir)?;
        Ok(Rooted { dir, path })
    }

    /// The real path of the root.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens `path` below the root. Links on the way are followed inside the root; `flags` may add
    /// `O_NOFOLLOW` for the last component. `O_CLOEXEC` is always set.
    ///
    /// # Errors
    /// Those of `openat2(2)`.
    pub fn get(&self, path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let mut last = Errno::EAGAIN;
        for _ in 0..TRIES {
            match openat2(self.dir.as_raw_fd(), path, how) {
                // SAFETY: openat2(2) returned this descriptor to us alone.
                Ok(fd) => return Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
                Err(errno @ (Errno::EAGAIN | Errno::EINTR)) => last = errno,
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(last.into())
    }

    /// Opens `path` below the root as a mere handle (`O_PATH`), for looking at it or mounting on it.
    ///
    /// # Errors
    /// Those of `openat2(2)`.
    pub fn handle(&self, path: &Path) -> io::Result<OwnedFd> {
        self.get(path, OFlag::O_PATH)
    }

    /// Whether `path` exists below the root.
    pub fn has(&self, path: &Path) -> bool {
        self.handle(path).is_ok()
    }

    /// The real path, seen from outside, of what `path` names below the root.
    ///
    /// # Errors
    /// Those of `openat2(2)` and of reading `/proc/self/fd`.
    pub fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        real_path(&self.handle(path)?)
    }
}

/// The name under which the kernel knows an open file. It needs a `/proc`.
fn real_path(fd: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_inside() {
        let tree = tempfile::tempdir().expect("tree");
        std::fs::create_dir_all(tree.path().join("etc")).expect("etc");
        std::fs::write(tree.path().join("etc/own"), b"x").expect("file");
        symlink("/etc/own", tree.path().join("absolute")).expect("link");
        symlink("../../../../etc/passwd", tree.path().join("etc/out")).expect("link");
        let root = Rooted::open(tree.path()).expect("root");
        let own = std::fs::canonicalize(tree.path().join("etc/own")).expect("own");
        assert_eq!(root.real_path(Path::new("absolute")).expect("inside"), own);
        assert_eq!(root.real_path(Path::new("/absolute")).expect("inside"), own);
        assert!(!root.has(Path::new("etc/out")), "a link to the machine's own /etc/passwd was followed");
        assert!(!root.has(Path::new("../../../../../../etc/hostname")));
    }
}
