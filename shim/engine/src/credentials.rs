//! The credentials of rebuilt processes, against the live spec. They come out of the image, which is not trusted.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;

use baton_fault::{Attempt, Code, Fault, Result};
use libcontainer::capabilities::CapabilityExt;
use oci_spec::runtime::{Capabilities, Spec};

use crate::bundle::Bundle;

/// Most threads that are looked at: the kernel's usual limit for a whole machine.
const THREADS_MAX: usize = 32_768;

/// Largest `status` file read, in bytes.
const STATUS_MAX: u64 = 64 * 1024;

/// What the live spec allows at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    capabilities: u64,
    root: bool,
    no_new_privs: bool,
    filtered: bool,
}

/// Looks at every thread of `pids`.
///
/// # Errors
/// `RESTORE_STATE` naming the first thing that exceeds the live spec.
pub(crate) fn check(bundle: &Bundle, pids: &BTreeSet<i32>) -> Result<()> {
    let limits = limits(&bundle.spec);
    let mut threads = 0;
    for pid in pids {
        let folder = format!("/proc/{pid}/task");
        for entry in fs::read_dir(&folder).attempt(|| format!("list {folder}"))? {
            threads += 1;
            if threads > THREADS_MAX {
                return Err(exceeds(*pid, format_args!("more than {THREADS_MAX} threads")));
            }
            let path = entry.attempt(|| format!("list {folder}"))?.path().join("status");
            let mut status = String::new();
            File::open(&path)
                .and_then(|file| file.take(STATUS_MAX).read_to_string(&mut status))
                .attempt(|| format!("read {}", path.display()))?;
            compare(limits, &status).map_err(|why| exceeds(*pid, why))?;
        }
    }
    Ok(())
}

fn exceeds(pid: i32, why: impl std::fmt::Display) -> Fault {
    Fault::new(Code::RestoreState, format_args!("check the credentials of restored process {pid}"), why)
        .advise("create the container with the security settings that the saved one had")
}

fn limits(spec: &Spec) -> Limits {
    let process = spec.process().as_ref();
    let bounding = process.and_then(|process| process.capabilities().as_ref()?.bounding().clone());
    Limits {
        capabilities: mask(&bounding.unwrap_or_default()),
        root: process.is_none_or(|process| process.user().uid() == 0),
        no_new_privs: process.and_then(|process| process.no_new_privileges()).unwrap_or(false),
        filtered: spec.linux().as_ref().is_some_and(|linux| linux.seccomp().is_some()),
    }
}

fn mask(capabilities: &Capabilities) -> u64 {
    capabilities.iter().map(|capability| capability.to_cap().bitmask()).fold(0, |mask, bit| mask | bit)
}

/// Compares a `/proc/PID/task/TID/status` (proc_pid_status(5)) with what is allowed.
fn compare(limits: Limits, status: &str) -> std::result::Result<(), String> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).ok_or_else(|| format!("no {name} in its status"))
    };
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let has = u64::from_str_radix(field(name)?, 16).map_err(|err| format!("{name}: {err}"))?;
        let more = has & !limits.capabilities;
        if more != 0 {
            return Err(format!("{name} has {more:#x} beyond the live spec"));
        }
    }
    if !limits.root && field("Uid")?.split_ascii_whitespace().any(|uid| uid == "0") {
        return Err("it is root; the live spec names another user".into());
    }
    if limits.no_new_privs && field("NoNewPrivs")? != "1" {
        return Err("it can gain privileges; the live spec forbids that".into());
    }
    if limits.filtered && field("Seccomp")? != "2" {
        return Err("it has no seccomp filter; the live spec has one".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tx\nUid:\t0\t0\t0\t0\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000003\n\
        CapEff:\t0000000000000003\nCapBnd:\t0000000000000003\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";
    const LIMITS: Limits = Limits { capabilities: 3, root: true, no_new_privs: true, filtered: true };

    #[test]
    fn what_the_live_spec_allows_passes() {
        assert_eq!(compare(LIMITS, STATUS), Ok(()));
    }

    #[test]
    fn everything_beyond_it_is_named() {
        let less = Limits { capabilities: 1, ..LIMITS };
        assert_eq!(compare(less, STATUS).expect_err("capability"), "CapPrm has 0x2 beyond the live spec");
        let user = Limits { root: false, ..LIMITS };
        assert!(compare(user, STATUS).expect_err("root").contains("root"));
        let free = STATUS.replace("NoNewPrivs:\t1", "NoNewPrivs:\t0");
        assert!(compare(LIMITS, &free).expect_err("privileges").contains("gain privileges"));
        let unfiltered = STATUS.replace("Seccomp:\t2", "Seccomp:\t0");
        assert!(compare(LIMITS, &unfiltered).expect_err("filter").contains("seccomp"));
    }

    #[test]
    fn a_status_that_says_nothing_is_refused() {
        assert!(compare(LIMITS, "").is_err());
    }
}
