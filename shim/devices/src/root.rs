//! The driver's files under its root: `/`, or where a container that brings the driver has its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use baton_config::Driver;
use baton_fault::{Attempt, Result};
use baton_rooted::Rooted;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, fstat};

/// Most entries of one directory that are looked at: a library directory of a full desktop has some 5000.
const ENTRIES_MAX: usize = 1 << 16;

/// The root of the driver, opened. Links below it do not lead out.
#[derive(Debug)]
pub struct DriverRoot {
    rooted: Rooted,
}

impl DriverRoot {
    /// Opens the root that the settings name.
    ///
    /// # Errors
    /// `FILE` when it does not exist.
    pub fn open(driver: &Driver) -> Result<DriverRoot> {
        let rooted =
            Rooted::open(&driver.root).attempt(|| format!("open the driver root {}", driver.root.display()))?;
        Ok(DriverRoot { rooted })
    }

    /// The look-ups below it.
    pub fn rooted(&self) -> &Rooted {
        &self.rooted
    }

    /// Where the driver's device nodes are: below its root, or the machine's own where a driver container
    /// brings none.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn device_dir(&self) -> Result<Rooted> {
        let own =
            self.rooted.real_path(Path::new("dev/nvidiactl")).ok().and_then(|node| node.parent().map(Path::to_owned));
        let dir = own.unwrap_or_else(|| PathBuf::from("/dev"));
        Rooted::open(&dir).attempt(|| format!("open {}", dir.display()))
    }

    /// The directories that may hold libraries, each once, as absolute paths below the root.
    pub fn library_dirs(&self) -> Vec<PathBuf> {
        let mut seen = Vec::new();
        let mut dirs = Vec::new();
        for dir in library_dir_names() {
            let Ok(stat) = self.stat(&dir) else { continue };
            let identity = (stat.st_dev, stat.st_ino);
            if !seen.contains(&identity) {
                seen.push(identity);
                dirs.push(dir);
            }
        }
        dirs
    }

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// Those of `open(2)` and of reading the directory.
    pub fn names(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let opened = self.rooted.get(dir, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let entries = std::fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd()))?;
        let mut names =
            entries.take(ENTRIES_MAX).map(|entry| entry.map(|e| e.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    /// Opens a regular file that is no link, for reading.
    pub fn regular(&self, path: &Path) -> Option<OwnedFd> {
        let file =
            self.rooted.get(path, OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).ok()?;
        let stat = fstat(file.as_raw_fd()).ok()?;
        (stat.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(file)
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        Ok(fstat(self.rooted.get(path, OFlag::O_PATH | OFlag::O_DIRECTORY)?.as_raw_fd())?)
    }
}

/// Where distributions put 64-bit libraries. Plain `usr/lib` is not among them: where it is not the same as
/// `usr/lib64`, it holds 32-bit ones.
pub fn library_dir_names() -> [PathBuf; 6] {
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    [
        format!("/usr/lib/{multiarch}"),
        "/usr/lib64".to_owned(),
        format!("/lib/{multiarch}"),
        "/lib64".to_owned(),
        // Where machines have the driver whose system is read-only.
        "/usr/local/nvidia/lib64".to_owned(),
        "/usr/local/nvidia/lib".to_owned(),
    ]
    .map(PathBuf::from)
}
