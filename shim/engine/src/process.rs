//! What `/proc/PID` says of a process.

use std::fs;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use baton_fault::{Attempt, Code, Fault, Result};
use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// Start time of a process in clock ticks since boot: with it a process number is unique.
pub(crate) fn start_time(pid: i32) -> Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).attempt(|| format!("read {path}"))?;
    parse_start_time(&stat)
        .ok_or_else(|| Fault::new(Code::System, format_args!("read {path}"), "not of the known form"))
}

/// Field 22 of `/proc/PID/stat`, counted after the name, which may hold blanks and parentheses.
fn parse_start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// A descriptor that becomes readable when process `pid` ends.
pub(crate) fn descriptor(pid: i32) -> Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and touches no memory of ours.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
        .map_err(std::io::Error::from)
        .and_then(|fd| RawFd::try_from(fd).map_err(std::io::Error::other))
        .attempt(|| format!("watch process {pid}"))?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Waits for a child of ours to end; its exit status as a shell would give it.
pub(crate) fn wait(pid: i32) -> Result<i32> {
    loop {
        match waitpid(Pid::from_raw(pid), None) {
            Ok(WaitStatus::Exited(_, code)) => return Ok(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(128 + signal as i32),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(err) => return Err(Fault::io(format_args!("wait for process {pid}"), &err.into())),
        }
    }
}

/// Tries `done` until it is true, at growing intervals, at most for `limit`; whether it came true.
pub(crate) fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_micros(200);
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 20 18446744073709551615";
        assert_eq!(parse_start_time(stat), Some(98765));
        assert_eq!(parse_start_time("garbage"), None);
    }

    #[test]
    fn our_own_start_time_is_readable() {
        assert!(start_time(std::process::id().cast_signed()).expect("own") > 0);
        assert!(start_time(i32::MAX).is_err());
    }
}
