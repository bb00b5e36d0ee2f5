//! A folder whose content is not trusted, and paths below it that no symbolic link leads out of.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, mkdirat};

/// A folder opened without following links below it.
pub(crate) struct Rooted(OwnedFd);

impl Rooted {
    /// Opens the folder itself; the path to it is ours and trusted.
    pub(crate) fn open(path: &Path) -> std::io::Result<Rooted> {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        File::options().read(true).custom_flags(flags).open(path).map(|file| Rooted(file.into()))
    }

    /// The descriptor, for the `*at` calls with a single name.
    pub(crate) fn fd(&self) -> Option<RawFd> {
        Some(self.0.as_raw_fd())
    }

    /// Opens `path` below the folder as a place (`O_PATH`), following no symbolic link at all.
    pub(crate) fn find(&self, path: &Path) -> std::io::Result<OwnedFd> {
        self.open_below(path, OFlag::O_PATH, ResolveFlag::empty())
    }

    /// Opens the folder `path` below this one for listing; not one that another filesystem is mounted on.
    pub(crate) fn folder(&self, path: &Path) -> std::io::Result<Rooted> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        self.open_below(path, flags, ResolveFlag::RESOLVE_NO_XDEV).map(Rooted)
    }

    fn open_below(&self, path: &Path, flags: OFlag, more: ResolveFlag) -> std::io::Result<OwnedFd> {
        let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS | more;
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(resolve);
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let fd = openat2(self.0.as_raw_fd(), path, how)?;
        // SAFETY: openat2 has just made this descriptor; nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Makes the folder `path` below this one and those above it that are missing.
    pub(crate) fn make_folders(&self, path: &Path) -> std::io::Result<Rooted> {
        let mut done = PathBuf::new();
        let mut here = self.open_below(&done, OFlag::O_PATH | OFlag::O_DIRECTORY, ResolveFlag::empty())?;
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            match mkdirat(Some(here.as_raw_fd()), name, Mode::from_bits_truncate(0o755)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(err) => return Err(err.into()),
            }
            done.push(name);
            here = self.open_below(&done, OFlag::O_PATH | OFlag::O_DIRECTORY, ResolveFlag::empty())?;
        }
        Ok(Rooted(here))
    }

    /// Makes the empty file `path` and the folders above it, where they are missing.
    pub(crate) fn make_file(&self, path: &Path) -> std::io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let folder = self.make_folders(parent)?;
        let flags = OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_RDONLY | OFlag::O_NONBLOCK;
        let how = OpenHow::new()
            .flags(flags)
            .mode(Mode::from_bits_truncate(0o644))
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        let fd = openat2(folder.0.as_raw_fd(), name, how)?;
        // SAFETY: openat2 has just made this descriptor; nobody else owns it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_link_in_the_way_is_not_followed() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let outside = tempfile::tempdir().expect("another");
        std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).expect("link");
        let rooted = Rooted::open(dir.path()).expect("open");
        assert!(rooted.make_folders(Path::new("/link/a")).is_err());
        assert!(rooted.make_file(Path::new("/link")).is_err());
        assert!(rooted.make_file(Path::new("link/f")).is_err());
        assert_eq!(fs::read_dir(outside.path()).expect("list").count(), 0);
    }

    #[test]
    fn missing_folders_and_files_are_made_and_existing_ones_stay() {
        let dir = tempfile::tempdir().expect("temporary folder");
        fs::write(dir.path().join("f"), "x").expect("write");
        let rooted = Rooted::open(dir.path()).expect("open");
        rooted.make_file(Path::new("/a/b/c")).expect("make");
        rooted.make_file(Path::new("/f")).expect("exists");
        rooted.make_folders(Path::new("/a/../a/b")).expect("exists");
        assert!(dir.path().join("a/b/c").is_file());
        assert_eq!(fs::read_to_string(dir.path().join("f")).expect("read"), "x");
        assert!(rooted.find(Path::new("/a/b/c")).is_ok());
        assert!(rooted.find(Path::new("/none")).is_err());
    }
}
