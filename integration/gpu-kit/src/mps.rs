//! An MPS control daemon of the kit's own, in a folder that no other program looks into.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::check::Stop;
use crate::driver_program::find;
use crate::kit::ends_with_us;

/// The daemon's program, which is also its console.
const PROGRAM: &str = "nvidia-cuda-mps-control";
/// Longest wait for it to listen.
const READY_DEADLINE: Duration = Duration::from_secs(20);

/// A running daemon; told to end when dropped.
#[derive(Debug)]
pub struct Daemon {
    folder: tempfile::TempDir,
    child: Child,
}

impl Daemon {
    /// Starts one and waits until it listens.
    pub fn start() -> Result<Daemon, Stop> {
        let folder = tempfile::tempdir().map_err(|err| format!("make a folder: {err}"))?;
        let mut command = in_folder(folder.path())?;
        let child = ends_with_us(&mut command).arg("-f").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|err| Stop::CannotRun(format!("{PROGRAM} does not start: {err}")))?;
        let mut daemon = Daemon { folder, child };
        let end = Instant::now() + READY_DEADLINE;
        while !daemon.folder.path().join("control").exists() {
            let ended = daemon.child.try_wait().map_err(|err| format!("wait for {PROGRAM}: {err}"))?;
            if ended.is_some() || Instant::now() > end {
                return Err(Stop::CannotRun(format!("{PROGRAM} does not listen ({ended:?}): {}", daemon.log())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(daemon)
    }

    /// What makes a program a client of it.
    pub fn environment(&self) -> (&'static str, String) {
        ("CUDA_MPS_PIPE_DIRECTORY", self.folder.path().to_string_lossy().into_owned())
    }

    /// What it answers to a command, line by line.
    pub fn ask(&self, command: &str) -> Result<Vec<String>, String> {
        let console = in_folder(self.folder.path()).map_err(|stop| format!("{stop:?}"))?;
        ask(console, command)
    }

    /// What it has written into its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("control.log")).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let told = self.ask("quit -t 1");
        if told.is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn in_folder(folder: &Path) -> Result<Command, Stop> {
    let mut command = find(PROGRAM)?;
    command.env("CUDA_MPS_PIPE_DIRECTORY", folder).env("CUDA_MPS_LOG_DIRECTORY", folder);
    Ok(command)
}

fn ask(mut console: Command, command: &str) -> Result<Vec<String>, String> {
    let failed = |err: std::io::Error| format!("{PROGRAM}: {err}");
    let mut child = console.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        writeln!(input, "{command}").map_err(failed)?;
    }
    let done = child.wait_with_output().map_err(failed)?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        Ok(said.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
    } else {
        Err(format!("{PROGRAM}: {command}: {}: {}", done.status, said.trim()))
    }
}
