//! Stopping a cell, whatever state it is in: complete, half started, or half stopped.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use baton_fault::{Attempt, Code, Fault, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cell::Cell;
use crate::house::{self, HUB, Lock};
use crate::{cgroup, init};

/// Longest wait for the kernel to let go of a cell.
const DEADLINE: Duration = Duration::from_secs(20);
/// Between two looks at what the kernel gives no event for: cgroups and loop devices.
const PAUSE: Duration = Duration::from_millis(2);

/// Stops a node, and the hub with the last one.
///
/// # Errors
/// `NOT_FOUND` when there is no trace of such a node.
pub fn stop(name: &str) -> Result<()> {
    house::check_name(name)?;
    if !Cell::run_dir(name).exists() && !Cell::disk_dir(name).exists() {
        if Cell::run_dir(HUB).exists() {
            // A start that was given up early may have left the hub alone.
            leave(Lock::take()?)?;
        }
        return Err(Fault::new(Code::NotFound, format!("stop node {name}"), "there is none of that name")
            .advise("see integration/node list"));
    }
    end(name)?;
    let held = Lock::take()?;
    remove(name)?;
    leave(held)
}

/// Stops all nodes and the hub.
pub fn stop_all() -> Result<()> {
    if !Path::new(house::RUN).exists() && !Path::new(house::DISK).exists() {
        return Ok(());
    }
    let held = Lock::take()?;
    for name in house::names() {
        remove(&name)?;
    }
    leave(held)
}

fn leave(held: Lock) -> Result<()> {
    if house::names().is_empty() {
        remove(HUB)?;
    }
    held.leave_empty();
    Ok(())
}

/// Ends every process of a cell and removes all that is left of it.
pub fn remove(name: &str) -> Result<()> {
    end(name)?;
    let cgroups = cgroups(name)?;
    wait_until(name, "its cgroups are busy", || cgroup::remove(&cgroups))?;
    let disk = Cell::disk_dir(name);
    wait_until(name, "its loop device is busy", || !on_loop(&disk.join("lib.ext4")))?;
    for dir in [disk, Cell::run_dir(name)] {
        if dir.exists() {
            fs::remove_dir_all(&dir).attempt(|| format!("remove {}", dir.display()))?;
        }
    }
    Ok(())
}

fn cgroups(name: &str) -> Result<Vec<std::path::PathBuf>> {
    // Without a record the cell was started from here, or there is nothing of it.
    Cell::load(name).map(|cell| cell.cgroups).or_else(|_| cgroup::places(name))
}

/// Kills the first process, waits until the kernel has ended all others with it, then ends what was on its way
/// in: a half-made first process, a command that was just being run there.
fn end(name: &str) -> Result<()> {
    let cgroups = cgroups(name)?;
    if let Some(first) = Cell::first(name)
        && let Ok(watch) = init::pidfd(first.pid.unsigned_abs())
        && first.runs()
    {
        cgroup::processes(&cgroups); // Thaws them.
        let _ = kill(Pid::from_raw(first.pid), Signal::SIGKILL);
        let timeout = PollTimeout::try_from(DEADLINE).unwrap_or(PollTimeout::MAX);
        let _ = poll(&mut [PollFd::new(watch.as_fd(), PollFlags::POLLIN)], timeout);
    }
    wait_until(name, "it has processes that do not end", || {
        let left = cgroup::processes(&cgroups);
        for pid in &left {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        left.is_empty()
    })
}

fn wait_until(name: &str, why_not: &str, mut done: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    while !done() {
        if Instant::now() > end {
            return Err(Fault::new(Code::Deadline, format!("stop node {name}"), why_not).advise("stop it again"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Whether a file is still behind a loop device.
fn on_loop(image: &Path) -> bool {
    image.exists()
        && fs::read_dir("/sys/block").into_iter().flatten().flatten().any(|entry| {
            fs::read_to_string(entry.path().join("loop/backing_file")).is_ok_and(|text| Path::new(text.trim()) == image)
        })
}
