//! Programs of pinned versions, as `integration/programs` built them.

use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Result};

use crate::house;

/// What every node has of them, where it is built, in /usr/local/bin.
const CLIENTS: &[&str] = &["crictl", "critest", "checkpointctl"];
/// The network plugins of pods.
const PLUGINS: &str = "cni";

/// The folder with programs of that name, or name and version.
fn folder(name: &str) -> Result<PathBuf> {
    let link = house::cache().join("programs").join(name);
    std::fs::canonicalize(&link)
        .map(|dir| dir.join("bin"))
        .attempt(|| format!("find {name} at {}", link.display()))
        .map_err(|fault| fault.advise(format!("integration/programs {name}")))
}

/// The folder of another containerd: of a version (`2.4`, `2.4.2`) or any folder.
///
/// # Errors
/// `FILE` when that version is not built, or there is no such folder.
pub fn containerd(which: &Path) -> Result<PathBuf> {
    match which.to_str() {
        Some(version) if !version.contains('/') => folder(&format!("containerd-{version}")),
        _ => std::fs::canonicalize(which).attempt(|| format!("find {}", which.display())),
    }
}

/// The folder with Docker's daemon and client, as `integration/setup` unpacked them.
///
/// # Errors
/// `FILE` when it has not.
pub fn docker() -> Result<PathBuf> {
    folder("docker").map_err(|fault| fault.advise("integration/setup"))
}

/// The folders with the clients that are built, and with those that were asked for.
///
/// # Errors
/// `FILE` when one that was asked for is not built.
pub fn clients(asked: &[String]) -> Result<Vec<PathBuf>> {
    let mut folders: Vec<_> = CLIENTS.iter().filter_map(|name| folder(name).ok()).collect();
    for name in asked {
        folders.push(folder(name)?);
    }
    Ok(folders)
}

/// The folder with the network plugins; none where they are not built, and pods get no network.
pub fn network_plugins() -> Option<PathBuf> {
    folder(PLUGINS).ok()
}
