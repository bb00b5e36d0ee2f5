//! One call of an engine: its command line, a log of its own, and what it says when it fails. Several calls may be under
//! way at once, for instance a program that is to be executed while a save freezes and thaws the container.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_fault::{Code, Fault, Result};
use serde::Deserialize;

use super::Engine;
use crate::children::{self, Finished, Streams};

/// Most of an engine's log that is read, in bytes.
const LOG_MAX: u64 = 1 << 20;

/// A call that is not made yet.
pub(super) struct Call<'a> {
    engine: &'a Engine,
    verb: &'static str,
    log: Log,
    /// Its command line so far: all but what the verb asks for.
    pub(super) command: Command,
}

impl<'a> Call<'a> {
    /// A call of that verb.
    pub(super) fn of(engine: &'a Engine, verb: &'static str) -> Call<'a> {
        let log = Log::new(&engine.bundle);
        let mut command = Command::new(&engine.program);
        command.arg("--root").arg(&engine.root).arg("--log").arg(&log.0).args(["--log-format", "json"]);
        if engine.systemd_cgroup {
            command.arg("--systemd-cgroup");
        }
        // containerd's service manager talks to containerd: runc and crun would wait for a word from the container there.
        command.env_remove("NOTIFY_SOCKET");
        command.arg(verb).current_dir(&engine.bundle);
        Call { engine, verb, log, command }
    }

    /// Makes it and waits for its end.
    pub(super) async fn finish(self, limit: Duration) -> Result<Finished> {
        self.finish_with_input(None, limit).await
    }

    /// The same, with this for its standard input.
    pub(super) async fn finish_with_input(self, input: Option<Vec<u8>>, limit: Duration) -> Result<Finished> {
        let Call { engine, verb, log, command } = self;
        let finished = children::run(command, input, limit).await?;
        if finished.status == 0 {
            return Ok(finished);
        }
        Err(fault(engine, verb, finished.status, &log, &String::from_utf8_lossy(&finished.stderr)))
    }

    /// Makes it with the streams of a process of the container and waits for its end.
    pub(super) async fn with_streams(self, streams: Streams, limit: Duration) -> Result<()> {
        let Call { engine, verb, log, command } = self;
        match children::run_with_streams(command, streams, limit).await? {
            0 => Ok(()),
            status => Err(fault(engine, verb, status, &log, "")),
        }
    }
}

/// The log of one call; removed with it.
struct Log(PathBuf);

impl Log {
    fn new(bundle: &Path) -> Log {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // The program that clears up after a shim may call the engine in the same bundle.
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Log(bundle.join(format!("engine-log-{process}-{number}.json")))
    }

    fn last_error(&self) -> Option<String> {
        use std::io::Read;
        let mut text = String::new();
        std::fs::File::open(&self.0).ok()?.take(LOG_MAX).read_to_string(&mut text).ok()?;
        last_error(&text)
    }
}

/// The last error in a log: one entry in a line, as runc and Baton write them, or over several lines, as crun does.
fn last_error(log: &str) -> Option<String> {
    let is_error = |entry: &Entry| entry.level == "error" || entry.level == "fatal";
    let mut lines = log.lines().rev().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
    let of_lines = lines.find(is_error);
    let entries = || serde_json::Deserializer::from_str(log).into_iter::<Entry>().map_while(std::result::Result::ok);
    of_lines.or_else(|| entries().filter(is_error).last()).map(|entry| entry.msg)
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Err(err) = std::fs::remove_file(&self.0)
            && err.kind() != std::io::ErrorKind::NotFound
        {
            log::warn!("remove {}: {err}", self.0.display());
        }
    }
}

#[derive(Deserialize)]
struct Entry {
    level: String,
    msg: String,
}

/// What the engine said last: Baton's own line with its code, or another engine's words.
fn fault(engine: &Engine, verb: &str, status: i32, log: &Log, stderr: &str) -> Fault {
    let words = log
        .last_error()
        .or_else(|| stderr.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_string))
        .unwrap_or_else(|| format!("exit status {status}"));
    let words = words.strip_prefix("baton: ").unwrap_or(&words);
    if let Some(fault) = Fault::parse(words) {
        return fault;
    }
    let code = if words.contains("does not exist") {
        Code::NotFound
    } else if words.contains("not running")
        || words.contains("already finished")
        || words.to_ascii_lowercase().contains("no such process")
    {
        Code::State
    } else if words.contains("no space left on device") {
        Code::NoSpace
    } else {
        Code::Engine
    };
    Fault::new(code, format!("{verb} of container {}", engine.id), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_found_however_the_engine_writes() {
        let runc = "{\"level\":\"error\",\"msg\":\"first\",\"time\":\"t\"}\n{\"level\":\"error\",\"msg\":\"last\"}\n\
                    {\"level\":\"warning\",\"msg\":\"no error\"}\nno JSON\n";
        assert_eq!(last_error(runc).as_deref(), Some("last"));
        let crun = "{\n  \"msg\": \"warned\",\n  \"level\": \"warning\"\n}\n\
                    {\n  \"msg\": \"failed\",\n  \"level\": \"error\"\n}\n";
        assert_eq!(last_error(crun).as_deref(), Some("failed"));
        assert_eq!(last_error(""), None);
        assert_eq!(last_error("{\"level\":\"info\",\"msg\":\"well\"}\n{ cut"), None);
    }
}
