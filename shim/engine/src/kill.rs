//! `kill`: a signal for the first process, or for all.

use baton_fault::{Code, Fault, Result};
use libcontainer::container::{Container, ContainerStatus};
use nix::errno::Errno;

use crate::Engine;
use crate::cgroup::Cgroup;

/// A signal by number, the real-time ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(i32);

/// Names of signals 1 to 31 on Linux, in order.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
    "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO",
    "PWR", "SYS",
];
/// SIGRTMIN and SIGRTMAX as container images and glibc name them.
const RT_MIN: i32 = 34;
const RT_MAX: i32 = 64;

impl Signal {
    /// SIGKILL.
    pub const KILL: Signal = Signal(libc::SIGKILL);
    /// SIGTERM.
    pub const TERM: Signal = Signal(libc::SIGTERM);

    /// Reads `9`, `KILL`, `SIGKILL`, `SIGRTMIN+3`.
    ///
    /// # Errors
    /// `USAGE`.
    pub fn parse(text: &str) -> Result<Signal> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let number = match name.parse::<i32>() {
            Ok(number) => Some(number),
            Err(_) => by_name(name),
        };
        number.filter(|number| (0..=RT_MAX).contains(number)).map(Signal).ok_or_else(|| {
            Fault::new(Code::Usage, format_args!("signal {text:?}"), "there is none of that name")
                .advise("pass a number or a name such as SIGTERM")
        })
    }
}

fn by_name(name: &str) -> Option<i32> {
    if let Some(index) = NAMES.iter().position(|known| *known == name) {
        return i32::try_from(index + 1).ok();
    }
    match name {
        "IOT" => return Some(libc::SIGABRT),
        "POLL" => return Some(libc::SIGIO),
        "RTMIN" => return Some(RT_MIN),
        "RTMAX" => return Some(RT_MAX),
        _ => {}
    }
    let (base, sign, offset) = match (name.strip_prefix("RTMIN+"), name.strip_prefix("RTMAX-")) {
        (Some(offset), _) => (RT_MIN, 1, offset),
        (_, Some(offset)) => (RT_MAX, -1, offset),
        _ => return None,
    };
    let offset = offset.parse::<i32>().ok().filter(|offset| (0..=RT_MAX - RT_MIN).contains(offset))?;
    Some(base + sign * offset)
}

impl Engine {
    /// Sends a signal to the first process of a container, or with `all` to every process in it.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STATE` when it has ended.
    pub fn kill(&self, id: &str, signal: Signal, all: bool) -> Result<()> {
        let container = self.load(id)?;
        let what = format!("kill container {id}");
        if all {
            return Cgroup::of(&container)?.signal_all(signal.0);
        }
        let not_running = || Fault::new(Code::State, &what, "container not running: process already finished");
        let pid = match (container.status(), container.pid()) {
            (ContainerStatus::Stopped, _) | (_, None) => return Err(not_running()),
            (_, Some(pid)) => pid,
        };
        match send(pid.as_raw(), signal.0) {
            Err(Errno::ESRCH) => return Err(not_running()),
            sent => sent.map_err(|err| Fault::io(&what, &err.into()))?,
        }
        thaw_to_die(&container, signal)
    }
}

/// A task in a frozen cgroup of version 1 does not even die before it is thawed.
fn thaw_to_die(container: &Container, signal: Signal) -> Result<()> {
    if container.status() == ContainerStatus::Paused && signal == Signal::KILL {
        Cgroup::of(container)?.thaw()?;
    }
    Ok(())
}

/// kill(2) with any number, as nix has no name for the real-time signals.
pub(crate) fn send(pid: i32, signal: i32) -> nix::Result<()> {
    // 0 and below mean whole groups of processes, our own among them.
    if pid <= 0 {
        return Err(Errno::ESRCH);
    }
    // SAFETY: kill takes two integers and touches no memory of ours.
    Errno::result(unsafe { libc::kill(pid, signal) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_by_number_and_name() {
        for (text, number) in [
            ("9", 9),
            ("KILL", 9),
            ("sigterm", 15),
            ("SIGUSR1", 10),
            ("SYS", 31),
            ("SIGRTMIN+3", 37),
            ("RTMAX-1", 63),
            ("0", 0),
        ] {
            assert_eq!(Signal::parse(text).expect(text), Signal(number), "{text}");
        }
        for text in ["", "SIG", "65", "-1", "RTMIN+31", "NOPE", "RTMIN+-1"] {
            assert_eq!(Signal::parse(text).expect_err(text).code, Code::Usage, "{text}");
        }
    }
}
