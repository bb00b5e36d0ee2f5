//! A workload as the target of the checkpoint API.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::asked::{Asked, Status};
use crate::kit;

/// Longest wait until it answers: a large driver initialises in seconds.
const BEGIN_DEADLINE: Duration = Duration::from_secs(60);

/// A running workload; killed when dropped.
#[derive(Debug)]
pub struct Target {
    child: Child,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Target {
    /// Starts `workload WORDS…` and waits until it answers.
    pub fn start(words: &[&str]) -> Result<Target, String> {
        Target::start_with(words, &[])
    }

    /// The same, with these variables in its environment.
    pub fn start_with(words: &[&str], environment: &[(&str, &str)]) -> Result<Target, String> {
        let folder = tempfile::tempdir().map_err(|err| format!("make a folder: {err}"))?;
        let socket = folder.path().join("socket");
        let child = kit::ends_with_us(&mut kit::program("baton-workload")?)
            .args(words)
            .arg("--socket")
            .arg(&socket)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|err| format!("start a workload: {err}"))?;
        let mut target = Target { child, socket, _folder: folder };
        let end = Instant::now() + BEGIN_DEADLINE;
        loop {
            // There is a moment in which its socket is there and does not listen yet.
            match target.wait(1) {
                Ok(_) => return Ok(target),
                Err(why) if !why.contains("no workload answers") => return Err(why),
                Err(_) => {}
            }
            if let Ok(Some(status)) = target.child.try_wait() {
                return Err(format!("workload {} ended with {status}", words.join(" ")));
            }
            if Instant::now() > end {
                return Err(format!("workload {} does not begin", words.join(" ")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// A number of kB in its /proc/PID/status.
    pub fn kilobytes(&self, key: &str) -> Result<u64, String> {
        let path = format!("/proc/{}/status", self.pid());
        let text = std::fs::read_to_string(&path).map_err(|err| format!("read {path}: {err}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).ok_or_else(|| format!("no {key} in {path}"))
    }
}

impl Asked for Target {
    const STEPS_ON: u64 = 3;

    fn ask(&self, words: &[&str]) -> Result<Status, String> {
        let mut command: Command = kit::program("baton-workload")?;
        let done = command.args(words).arg("--socket").arg(&self.socket).output();
        let done = done.map_err(|err| format!("ask a workload: {err}"))?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).trim().to_owned());
        }
        serde_json::from_slice(&done.stdout).map_err(|err| format!("a workload said something else: {err}"))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
