//! The programs that come with the driver, by which its operators change cards.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::check::Stop;

/// Where they may lie: on a machine, in a container that NVIDIA's toolkit has made, under a driver root.
const FOLDERS: [&str; 4] = ["/usr/bin", "/usr/local/bin", "/usr/local/nvidia/bin", "/run/nvidia/driver/usr/bin"];

/// The program of that name, which runs on the machine's own C library.
///
/// # Errors
/// That it is not there: what needs it cannot be found out.
pub fn find(name: &str) -> Result<Command, Stop> {
    let found = FOLDERS.iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.exists());
    let path = found.ok_or_else(|| Stop::CannotRun(format!("no {name} is in {}", FOLDERS.join(", "))))?;
    let mut command = Command::new(path);
    command.env("LD_LIBRARY_PATH", std::env::var("BATON_KIT_SEARCH").unwrap_or_default()).stdin(Stdio::null());
    Ok(command)
}

/// Runs `nvidia-smi WORDS…`; what it printed.
///
/// # Errors
/// What it said where it failed: for most of what it is asked, a matter of rights.
pub fn smi(words: &[&str]) -> Result<String, Stop> {
    let line = format!("nvidia-smi {}", words.join(" "));
    let done = find("nvidia-smi")?.args(words).output().map_err(|err| Stop::CannotRun(format!("{line}: {err}")))?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(said) } else { Err(Stop::CannotRun(format!("{line}: {}", said.trim()))) }
}
