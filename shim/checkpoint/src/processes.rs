//! The processes of a container: who they are, so that a pid that was given to somebody else is never touched.

use std::path::PathBuf;

use baton_fault::{Attempt, Code, Fault, Result};
use serde::{Deserialize, Serialize};

/// Longest line of ancestors that is followed.
const GENERATIONS_MAX: usize = 4096;

/// A process that stays the same one: a pid and when the process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// The pid as Baton sees it.
    pub pid: u32,
    /// Start time in clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub begun: u64,
}

impl ProcessId {
    /// The process that has `pid` now; none when there is none, or only a zombie.
    pub fn now(pid: u32) -> Option<ProcessId> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, begun) = state_and_start(&stat)?;
        (state != 'Z' && state != 'X').then_some(ProcessId { pid, begun })
    }

    /// Whether it still lives.
    pub fn lives(&self) -> bool {
        ProcessId::now(self.pid).as_ref() == Some(self)
    }

    /// Its pid in the innermost pid namespace that it is in: the last number of `NSpid`.
    ///
    /// # Errors
    /// `STATE` when it has gone.
    pub fn in_container(&self) -> Result<u32> {
        let path = PathBuf::from(format!("/proc/{}/status", self.pid));
        let text = std::fs::read_to_string(&path).attempt(|| format!("read {}", path.display()))?;
        innermost(&text).ok_or_else(|| Fault::new(Code::State, format!("read {}", path.display()), "no NSpid line"))
    }

    /// Whether it is `init` or came from it by forks: what CRIU dumps. A process that was executed into the container
    /// later has its parent outside.
    pub fn descends_from(&self, init: u32) -> bool {
        let mut pid = self.pid;
        for _ in 0..GENERATIONS_MAX {
            if pid == init {
                return true;
            }
            match std::fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| parent(&stat)) {
                Some(above) if above > 1 => pid = above,
                _ => return false,
            }
        }
        false
    }

    /// Its name, at most 15 bytes; empty when it has gone.
    pub fn command(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default().trim_end().to_string()
    }

    /// Memory that a dump of it would write, in bytes: what is resident and not backed by a file.
    pub fn dump_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        status
            .lines()
            .filter(|line| line.starts_with("RssAnon:") || line.starts_with("RssShmem:"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
            .map(|kib| kib * 1024)
            .sum()
    }

    /// Whether it has a descriptor or a mapping of an NVIDIA device; such a process cannot be dumped.
    pub fn holds_gpu_files(&self) -> bool {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid))
            .map(|entries| {
                entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect::<Vec<_>>()
            })
            .unwrap_or_default();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        descriptors
            .iter()
            .any(|target| target.starts_with("/dev/nvidia") || target.to_string_lossy().starts_with("/dev/nvidia"))
            || maps
                .lines()
                .any(|line| line.split_whitespace().nth(5).is_some_and(|file| file.starts_with("/dev/nvidia")))
    }
}

/// State letter and start time from a line of `/proc/PID/stat`; the command in it may hold anything, also `)`.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let after = &stat[stat.rfind(')')? + 1..];
    let mut fields = after.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // The state is field 3; the start time is field 22.
    let begun = fields.nth(18)?.parse().ok()?;
    Some((state, begun))
}

/// The parent's pid, field 4 of `/proc/PID/stat`.
fn parent(stat: &str) -> Option<u32> {
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(1)?.parse().ok()
}

fn innermost(status: &str) -> Option<u32> {
    let line = status.lines().find(|line| line.starts_with("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_brackets_does_not_confuse() {
        let stat = "42 (a) R 1 (b)) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 9 10";
        assert_eq!(state_and_start(stat), Some(('S', 987_654)));
    }

    #[test]
    fn this_process_lives_and_another_start_is_another_process() {
        let me = ProcessId::now(std::process::id()).expect("alive");
        assert!(me.lives());
        assert!(!ProcessId { begun: me.begun + 1, ..me }.lives());
        assert!(!me.holds_gpu_files());
    }

    #[test]
    fn a_child_descends_from_its_parent_and_not_the_other_way_round() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let (me, it) = (std::process::id(), ProcessId::now(child.id()).expect("alive"));
        assert!(it.descends_from(me));
        assert!(it.descends_from(it.pid));
        assert!(!ProcessId::now(me).expect("alive").descends_from(it.pid));
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    #[test]
    fn the_last_of_nspid_is_the_pid_in_the_container() {
        assert_eq!(innermost("Name:\tx\nNSpid:\t812\t40\t1\nThreads:\t1\n"), Some(1));
        assert_eq!(innermost("Name:\tx\n"), None);
    }
}
