//! A running counter, and what it says.

use std::path::PathBuf;
use std::process::Command;

use super::{Killed, built};

/// A running counter.
pub struct Counter {
    pub child: Killed,
    socket: PathBuf,
}

/// What `status` printed, and whether it found all right.
#[derive(Debug)]
pub struct Status {
    pub step: u64,
    pub gpu: String,
    pub right: bool,
}

impl Counter {
    /// One that answers at a socket.
    pub fn of(child: Killed, socket: PathBuf) -> Counter {
        Counter { child, socket }
    }

    pub fn pid(&self) -> i32 {
        self.child.0.id() as i32
    }

    /// Runs `status` or `wait STEP`.
    pub fn ask(&self, question: &[&str]) -> Status {
        let mut ask = Command::new(built().join("baton-counter"));
        let output = ask.args(question).arg("--socket").arg(&self.socket).output().expect("status");
        let text = String::from_utf8(output.stdout).expect("text");
        let answer: serde_json::Value = serde_json::from_str(&text).expect("one line of JSON");
        assert!(text.starts_with("{\"step\":"), "{text}");
        Status {
            step: answer["step"].as_u64().expect("step"),
            gpu: answer["gpu"].as_str().unwrap_or("null").to_owned(),
            right: output.status.success() && answer["checksum"] == answer["expected"],
        }
    }

    /// What it has of the hardware.
    pub fn traces(&self) -> Vec<String> {
        traces_of(self.pid())
    }
}

/// What a process has open and mapped of the hardware: card memory, or a connection.
pub fn traces_of(pid: i32) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let mut traces: Vec<String> = maps.lines().filter(|line| line.contains("/memfd:")).map(str::to_owned).collect();
    let connections = std::fs::read_to_string("/proc/net/unix").expect("sockets");
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).expect("fds").flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        let target = target.to_string_lossy().into_owned();
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        // State 03 is connected; the counter's own listening socket is 01.
        let connected = inode.is_some_and(|inode| {
            connections
                .lines()
                .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
                .any(|line| line.len() > 6 && line[6] == inode && line[5] == "03")
        });
        if connected || target.contains("memfd") {
            traces.push(target);
        }
    }
    traces
}
