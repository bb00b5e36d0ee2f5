//! A folder whose content is not trusted, and paths below it that no link leads out of.
//!
//! There are two ways to take a path. [`Rooted::get`] and what is built on it follow links, inside the folder: so a
//! program in a container would find a file. [`Rooted::find`], [`Rooted::folder`] and the makers follow none: so is
//! written where somebody else may have put a link.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, mkdirat};

/// How often a look-up is tried again when something in the tree was renamed meanwhile (`EAGAIN`).
const TRIES: usize = 16;

/// A folder that is the root of all look-ups below it: absolute links and `..` stay inside.
#[derive(Debug)]
pub struct Rooted {
    dir: OwnedFd,
    path: PathBuf,
}

impl Rooted {
    /// Opens the folder itself; the path to it is ours and trusted. It needs a `/proc`.
    ///
    /// # Errors
    /// Those of `open(2)` and of reading `/proc/self/fd`.
    pub fn open(path: &Path) -> io::Result<Rooted> {
        let fd = nix::fcntl::open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        // SAFETY: open(2) returned this descriptor to us alone.
        let dir = unsafe { OwnedFd::from_raw_fd(fd) };
        let path = real_path(&dir)?;
        Ok(Rooted { dir, path })
    }

    /// The descriptor, for the `*at` calls with a single name.
    pub fn fd(&self) -> Option<RawFd> {
        Some(self.dir.as_raw_fd())
    }

    /// The real path of the folder, as it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens `path` below the folder. Links on the way are followed inside it; `flags` may add `O_NOFOLLOW` for the last
    /// component. `O_CLOEXEC` is always set.
    ///
    /// # Errors
    /// Those of `openat2(2)`.
    pub fn get(&self, path: &Path, flags: OFlag) -> io::Result<OwnedFd> {
        self.open_below(path, flags, ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS)
    }

    /// Opens `path` below the folder as a mere handle (`O_PATH`), for looking at it or mounting on it; links are followed
    /// inside.
    ///
    /// # Errors
    /// Those of `openat2(2)`.
    pub fn handle(&self, path: &Path) -> io::Result<OwnedFd> {
        self.get(path, OFlag::O_PATH)
    }

    /// Whether `path` exists below the folder; links are followed inside.
    pub fn has(&self, path: &Path) -> bool {
        self.handle(path).is_ok()
    }

    /// The real path, seen from outside, of what `path` names below the folder; links are followed inside.
    ///
    /// # Errors
    /// Those of `openat2(2)` and of reading `/proc/self/fd`.
    pub fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        real_path(&self.handle(path)?)
    }

    /// Opens `path` below the folder as a place (`O_PATH`), following no symbolic link at all.
    ///
    /// # Errors
    /// Those of `openat2(2)`.
    pub fn find(&self, path: &Path) -> io::Result<OwnedFd> {
        self.open_strictly(path, OFlag::O_PATH, ResolveFlag::empty())
    }

    /// Opens the folder `path` below this one for listing, following no link; not one that another filesystem is mounted
    /// on.
    ///
    /// # Errors
    /// Those of `openat2(2)`.
    pub fn folder(&self, path: &Path) -> io::Result<Rooted> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let dir = self.open_strictly(path, flags, ResolveFlag::RESOLVE_NO_XDEV)?;
        Ok(Rooted { path: self.path.join(names(path).collect::<PathBuf>()), dir })
    }

    /// Makes the folder `path` below this one and those above it that are missing, following no link.
    ///
    /// # Errors
    /// Those of `mkdirat(2)` and `openat2(2)`.
    pub fn make_folders(&self, path: &Path) -> io::Result<Rooted> {
        let place = |path: &Path| self.open_strictly(path, OFlag::O_PATH | OFlag::O_DIRECTORY, ResolveFlag::empty());
        let mut done = PathBuf::new();
        let mut here = place(&done)?;
        for name in names(path) {
            match mkdirat(Some(here.as_raw_fd()), name, Mode::from_bits_truncate(0o755)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(err) => return Err(err.into()),
            }
            done.push(name);
            here = place(&done)?;
        }
        Ok(Rooted { path: self.path.join(done), dir: here })
    }

    /// Makes the empty file `path` and the folders above it, where they are missing, following no link.
    ///
    /// # Errors
    /// Those of `mkdirat(2)` and `openat2(2)`.
    pub fn make_file(&self, path: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = self.make_folders(parent)?;
        let how = OpenHow::new()
            .flags(OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY | OFlag::O_NONBLOCK)
            .mode(Mode::from_bits_truncate(0o644))
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        let fd = openat2(folder.dir.as_raw_fd(), name, how)?;
        // SAFETY: openat2 has just made this descriptor; nobody else owns it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(())
    }

    fn open_strictly(&self, path: &Path, flags: OFlag, more: ResolveFlag) -> io::Result<OwnedFd> {
        self.open_below(path, flags, ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS | more)
    }

    fn open_below(&self, path: &Path, flags: OFlag, resolve: ResolveFlag) -> io::Result<OwnedFd> {
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve);
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let mut last = Errno::EAGAIN;
        for _ in 0..TRIES {
            match openat2(self.dir.as_raw_fd(), path, how) {
                // SAFETY: openat2 has just made this descriptor; nobody else owns it.
                Ok(fd) => return Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
                Err(errno @ (Errno::EAGAIN | Errno::EINTR)) => last = errno,
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(last.into())
    }
}

/// The names in a path, without what leads up.
fn names(path: &Path) -> impl Iterator<Item = &std::ffi::OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

/// The name under which the kernel knows an open file.
fn real_path(fd: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_that_are_followed_stay_inside() {
        let tree = tempfile::tempdir().expect("tree");
        fs::create_dir_all(tree.path().join("etc")).expect("etc");
        fs::write(tree.path().join("etc/own"), b"x").expect("file");
        symlink("/etc/own", tree.path().join("absolute")).expect("link");
        symlink("../../../../etc/passwd", tree.path().join("etc/out")).expect("link");
        let root = Rooted::open(tree.path()).expect("root");
        let own = fs::canonicalize(tree.path().join("etc/own")).expect("own");
        assert_eq!(root.real_path(Path::new("absolute")).expect("inside"), own);
        assert_eq!(root.real_path(Path::new("/absolute")).expect("inside"), own);
        assert!(!root.has(Path::new("etc/out")), "a link to the machine's own /etc/passwd was followed");
        assert!(!root.has(Path::new("../../../../../../etc/hostname")));
    }

    #[test]
    fn a_link_in_the_way_of_what_is_made_is_not_followed() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let outside = tempfile::tempdir().expect("another");
        symlink(outside.path(), dir.path().join("link")).expect("link");
        symlink("inside", dir.path().join("short")).expect("link");
        let rooted = Rooted::open(dir.path()).expect("open");
        assert!(rooted.make_folders(Path::new("/link/a")).is_err());
        assert!(rooted.make_file(Path::new("/link")).is_err());
        assert!(rooted.make_file(Path::new("link/f")).is_err());
        assert!(rooted.make_folders(Path::new("short/a")).is_err(), "not even inside");
        assert!(rooted.find(Path::new("short")).is_err() && rooted.folder(Path::new("link")).is_err());
        assert_eq!(fs::read_dir(outside.path()).expect("list").count(), 0);
    }

    #[test]
    fn missing_folders_and_files_are_made_and_existing_ones_stay() {
        let dir = tempfile::tempdir().expect("temporary folder");
        fs::write(dir.path().join("f"), "x").expect("write");
        let rooted = Rooted::open(dir.path()).expect("open");
        rooted.make_file(Path::new("/a/b/c")).expect("make");
        rooted.make_file(Path::new("/f")).expect("exists");
        let made = rooted.make_folders(Path::new("/a/../a/b")).expect("exists");
        assert_eq!(made.path(), rooted.path().join("a/a/b"));
        assert!(dir.path().join("a/b/c").is_file());
        assert_eq!(fs::read_to_string(dir.path().join("f")).expect("read"), "x");
        assert!(rooted.find(Path::new("/a/b/c")).is_ok());
        assert!(rooted.find(Path::new("/none")).is_err());
    }
}
