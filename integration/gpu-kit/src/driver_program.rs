//! The programs that come with the driver, by which its operators change cards.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::check::Stop;
use crate::kit::ends_with_us;

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

/// For [`smi`]: ended with the check that it belongs to.
pub fn together(command: &mut Command) {
    ends_with_us(command);
}

/// For [`smi`]: not ended with the check, nor by who stops the run at a terminal.
pub fn alone(command: &mut Command) {
    command.process_group(0);
}

/// Runs `nvidia-smi WORDS…`; what it printed.
///
/// # Errors
/// What it said where it failed: for most of what it is asked, a matter of rights.
pub fn smi(words: &[&str], how: fn(&mut Command)) -> Result<String, Stop> {
    let line = format!("nvidia-smi {}", words.join(" "));
    let mut command = find("nvidia-smi")?;
    how(&mut command);
    let done = command.args(words).output().map_err(|err| Stop::CannotRun(format!("{line}: {err}")))?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(said) } else { Err(Stop::CannotRun(format!("{line}: {}", said.trim()))) }
}
