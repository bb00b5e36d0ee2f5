//! Where nodes keep things on the machine they run on, and the lock around what they share.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use nix::fcntl::{Flock, FlockArg};

/// State of the running nodes, one folder each. Gone when the last node is stopped.
pub const RUN: &str = "/run/baton-nodes";
/// What running nodes write to disk, one folder each. Gone when the last node is stopped.
pub const DISK: &str = "/var/lib/baton-nodes";
/// The cell that holds the bridge and the registry. Its dot keeps it apart from every node's name.
pub const HUB: &str = ".hub";

/// Longest name of a node: it is a host name and part of a cgroup's name.
const NAME_MAX: usize = 48;

/// The folder that outlives the nodes: their root, and images made for them.
pub fn cache() -> PathBuf {
    std::env::var_os("BATON_CACHE").map_or_else(|| PathBuf::from("/var/cache/baton"), PathBuf::from)
}

/// The root file system that all nodes share.
///
/// # Errors
/// `FILE` when `integration/setup` has not made it.
pub fn node_root() -> Result<PathBuf> {
    let link = cache().join("root");
    fs::canonicalize(&link)
        .attempt(|| format!("find the root of the nodes at {}", link.display()))
        .map_err(|fault| fault.advise("run integration/setup"))
}

/// Refuses a name that could not be a host name.
pub fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > NAME_MAX || name.starts_with('-') || !name.chars().all(plain) {
        return Err(Fault::new(Code::Usage, format!("use the node name {name:?}"), "it cannot be a host name")
            .advise(format!("use 1 to {NAME_MAX} of a-z, 0-9 and -, a letter or a digit first")));
    }
    Ok(())
}

/// The names of all cells that have left a folder, the hub's not among them.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = [RUN, DISK]
        .iter()
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Held while what all nodes share is changed: the hub, the addresses, the folders above.
pub struct Lock {
    _file: Flock<File>,
}

impl Lock {
    /// Waits for the lock.
    pub fn take() -> Result<Lock> {
        let path = Path::new(RUN).join(".lock");
        loop {
            fs::create_dir_all(RUN).attempt(|| format!("make {RUN}"))?;
            let file = match OpenOptions::new().create(true).truncate(false).write(true).open(&path) {
                Ok(file) => file,
                // The last node was stopped in between, and took the folder along.
                Err(err) if err.kind() == std::io::ErrorKind::NotFound => continue,
                Err(err) => return Err(Fault::io(format!("open {}", path.display()), &err)),
            };
            let held = Flock::lock(file, FlockArg::LockExclusive)
                .map_err(|(_, errno)| Fault::io(format!("lock {}", path.display()), &errno.into()))?;
            let mine = held.metadata().map(|meta| meta.ino());
            if let (Ok(mine), Ok(there)) = (mine, fs::metadata(&path))
                && mine == there.ino()
            {
                return Ok(Lock { _file: held });
            }
        }
    }

    /// Removes the shared folders, if nothing is left in them.
    pub fn leave_empty(self) {
        // Whoever waits for this very file sees that it is gone, and makes another.
        if names().is_empty() && !Path::new(RUN).join(HUB).exists() {
            let _ = fs::remove_dir(DISK);
            let _ = fs::remove_file(Path::new(RUN).join(".lock"));
            let _ = fs::remove_dir(RUN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_be_fit_for_a_host_and_a_folder() {
        for good in ["a", "node-7", "0a"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".hub", "-a", "A", "a/b", "..", "a b", &"x".repeat(49)] {
            assert_eq!(check_name(bad).map_err(|fault| fault.code), Err(Code::Usage), "{bad}");
        }
    }
}
