//! `events`: what a container uses, again and again, and each time that it runs out of memory, until it ends.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use baton_fault::{Attempt, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value, json};

use crate::Engine;
use crate::cgroup::Cgroup;
use crate::{process, stats};

impl Engine {
    /// Tells of a container every `interval`, and at once when it runs out of memory; returns when it has ended.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STATE` when it has ended before, `SYSTEM` when it cannot be watched, and what `tell` returns.
    pub fn events(&self, id: &str, interval: Duration, tell: &mut dyn FnMut(&Value) -> Result<()>) -> Result<()> {
        self.stats(id)?;
        let container = self.load(id)?;
        let cgroup = Cgroup::of(&container)?;
        let pid = container.pid().map_or(0, |pid| pid.as_raw());
        let end = process::descriptor(pid)?;
        let mut memory = OutOfMemory::watch(&cgroup);
        let mut next = Instant::now() + interval;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            let mut watched = vec![PollFd::new(end.as_fd(), PollFlags::POLLIN)];
            watched.extend(memory.as_ref().map(OutOfMemory::poll));
            let limit = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut watched, limit) {
                Err(nix::errno::Errno::EINTR) => continue,
                polled => polled.map_err(std::io::Error::from).attempt(|| format!("wait for events of {id}"))?,
            };
            let woken = |index: usize| watched.get(index).and_then(|fd| fd.any()).unwrap_or(false);
            let (ended, stirred) = (woken(0), woken(1));
            drop(watched);
            if stirred && memory.as_mut().is_some_and(OutOfMemory::happened) {
                tell(&json!({ "type": "oom", "id": id }))?;
            }
            if ended {
                return Ok(());
            }
            if Instant::now() >= next {
                tell(&json!({ "type": "stats", "id": id, "data": stats::of(&cgroup) }))?;
                next += interval;
            }
        }
    }
}

/// Most of a file of the kernel that is read, in bytes.
const TEXT_MAX: u64 = 64 * 1024;

/// The kernel's notice that a cgroup ran out of memory.
enum OutOfMemory {
    /// Version 1: an eventfd that is registered for `memory.oom_control`, which stays open with it.
    Counter { eventfd: File, control: File },
    /// Version 2: `memory.events`, and the kills that it counted last.
    Table { file: File, kills: u64 },
}

impl OutOfMemory {
    /// `None` where there is no memory controller.
    fn watch(cgroup: &Cgroup) -> Option<OutOfMemory> {
        let folder = cgroup.controller("memory")?;
        if cgroup.is_unified() {
            let mut file = File::open(folder.join("memory.events")).ok()?;
            let kills = kills(&read_again(&mut file).ok()?);
            return Some(OutOfMemory::Table { file, kills });
        }
        let control = File::open(folder.join("memory.oom_control")).ok()?;
        // SAFETY: eventfd takes two integers and touches no memory of ours.
        let fd = nix::errno::Errno::result(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).ok()?;
        // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
        let eventfd = unsafe { File::from_raw_fd(fd) };
        let order = format!("{} {}", eventfd.as_raw_fd(), control.as_raw_fd());
        fs::write(folder.join("cgroup.event_control"), order).ok()?;
        Some(OutOfMemory::Counter { eventfd, control })
    }

    fn poll(&self) -> PollFd<'_> {
        match self {
            OutOfMemory::Counter { eventfd, .. } => PollFd::new(eventfd.as_fd(), PollFlags::POLLIN),
            OutOfMemory::Table { file, .. } => PollFd::new(file.as_fd(), PollFlags::POLLPRI),
        }
    }

    /// Whether it ran out since the last look; a cgroup that goes away wakes us too.
    fn happened(&mut self) -> bool {
        match self {
            OutOfMemory::Counter { eventfd, control } => {
                let mut count = [0; 8];
                let counted = eventfd.read_exact(&mut count).is_ok() && u64::from_ne_bytes(count) > 0;
                counted && control.metadata().is_ok_and(|meta| meta.nlink() > 0)
            }
            OutOfMemory::Table { file, kills: before } => {
                let now = read_again(file).map_or(*before, |text| kills(&text));
                std::mem::replace(before, now) < now
            }
        }
    }
}

/// The text of a file of the kernel, which wakes us again only when it was read through the same descriptor.
fn read_again(file: &mut File) -> std::io::Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.take(TEXT_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn kills(events: &str) -> u64 {
    let line = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kills_are_counted() {
        assert_eq!(kills("low 1\noom 5\noom_kill 3\noom_group_kill 9\n"), 3);
        assert_eq!(kills(""), 0);
    }
}
