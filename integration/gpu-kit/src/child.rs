//! A check in a process of its own, ended with all that it started when its time is over.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::check::{Check, Outcome, Word};
use crate::stopping::{self, Running};
use crate::{kit, undo};

/// Most of what a check prints that is read.
const OUTPUT_MAX: u64 = 1 << 20;
/// Lines of its standard error that the report keeps.
const LINES_KEPT: usize = 12;

/// Runs a check; what it says, and how long it took.
pub fn run(check: &Check, left: Duration) -> (Word, Duration) {
    let begun = Instant::now();
    let limit = Duration::from_secs(check.limit_s).min(left);
    let word = if stopping::stopped() {
        word(Outcome::CannotRun, stopping::WHY.to_owned())
    } else if left.is_zero() {
        word(Outcome::CannotRun, "no time is left".to_owned())
    } else {
        let mut word = attempt(check, limit).unwrap_or_else(|why| word(Outcome::Failed, why));
        word.notes.extend(undo::after_check().err());
        word
    };
    (word, begun.elapsed())
}

/// A word without notes.
pub fn word(outcome: Outcome, why: String) -> Word {
    Word { outcome, why: Some(why), notes: Vec::new() }
}

fn attempt(check: &Check, limit: Duration) -> Result<Word, String> {
    let mut command: Command = kit::program("baton-gpu-kit")?;
    command.args(["check", check.name]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that what it started can be ended with it.
    command.process_group(0);
    let mut child = kit::ends_with_us(&mut command).spawn().map_err(|err| format!("start the check: {err}"))?;
    let (out, err) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let (ended, end) = std::sync::mpsc::channel();
    let group = Pid::from_raw(child.id().cast_signed());
    let running = Running::group(child.id());
    let wait = std::thread::spawn(move || {
        let status = child.wait();
        let _ = ended.send(());
        status
    });
    let late = end.recv_timeout(limit).is_err();
    drop(running);
    // Also what an orderly check may have left.
    let _ = killpg(group, Signal::SIGKILL);
    if stopping::stopped() {
        return Ok(word(Outcome::CannotRun, stopping::WHY.to_owned()));
    }
    if late {
        return Err(format!("it did not end in {} s", limit.as_secs()));
    }
    let status = wait.join().map_err(|_| "a thread panicked".to_owned())?.map_err(|err| err.to_string())?;
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    let last = out.lines().last().unwrap_or_default();
    let mut word: Word = serde_json::from_str(last).map_err(|_| format!("it ended with {status}: {}", tail(&err)))?;
    if word.outcome != Outcome::Passed && !err.is_empty() {
        word.notes.push(tail(&err));
    }
    Ok(word)
}

fn collect(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.map(|from| from.take(OUTPUT_MAX).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The last lines of a text.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES_KEPT)..].join("\n")
}
