//! Locks of files, of both kinds that programs use.

use std::fs::File;
use std::os::fd::AsRawFd;

/// The two kinds, which know nothing of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// POSIX's, which belongs to a process.
    Posix,
    /// That of `flock(2)`, which belongs to an open file.
    Flock,
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        match text {
            "posix" => Ok(Kind::Posix),
            "flock" => Ok(Kind::Flock),
            other => Err(format!("{other:?} is no kind of lock")),
        }
    }
}

/// Takes the lock of a file, alone; it is let go at the end.
pub fn take(kind: Kind, path: &str) -> Result<File, String> {
    let file = File::options().write(true).create(true).truncate(false).open(path);
    let file = file.map_err(|err| format!("open {path}: {err}"))?;
    let whole_file =
        libc::flock { l_type: libc::F_WRLCK as _, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: 0, l_pid: 0 };
    // SAFETY: the descriptor is open, and the kernel only reads the description of the lock.
    let taken = unsafe {
        match kind {
            Kind::Posix => libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const whole_file),
            Kind::Flock => libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB),
        }
    };
    match (taken, std::io::Error::last_os_error()) {
        (0, _) => Ok(file),
        (_, err) if matches!(err.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Err(format!("{path} is locked by another"))
        }
        (_, err) => Err(format!("lock {path}: {err}")),
    }
}

/// Takes the lock and keeps it until it is killed.
pub fn hold(kind: Kind, path: &str) -> Result<(), String> {
    let _held = take(kind, path)?;
    loop {
        std::thread::park();
    }
}
