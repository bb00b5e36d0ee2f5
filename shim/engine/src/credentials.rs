//! The credentials of rebuilt processes, against the live spec. They come out of the image, which is not trusted.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;

use baton_fault::{Attempt, Code, Fault, Result};
use libcontainer::capabilities::CapabilityExt;
use oci_spec::runtime::{Capabilities, Capability, LinuxIdMapping, Spec, User};

use crate::bundle::Bundle;

/// Most threads that are looked at: the kernel's usual limit for a whole machine.
const THREADS_MAX: usize = 32_768;

/// Largest `status` file read, in bytes.
const STATUS_MAX: u64 = 64 * 1024;

/// What the live spec allows at most.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Limits {
    capabilities: u64,
    root: bool,
    /// The only user, for one that cannot become another.
    uid: Option<u32>,
    /// The only group and the only supplementary groups, for a user that cannot take others.
    groups: Option<(u32, BTreeSet<u32>)>,
    no_new_privs: bool,
    filtered: bool,
}

/// Looks at every thread of `pids`.
///
/// # Errors
/// `RESTORE_STATE` naming the first thing that exceeds the live spec.
pub(crate) fn check(bundle: &Bundle, pids: &BTreeSet<i32>) -> Result<()> {
    let limits = limits(&bundle.spec)?;
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
            compare(&limits, &status).map_err(|why| exceeds(*pid, why))?;
        }
    }
    Ok(())
}

fn exceeds(pid: i32, why: impl std::fmt::Display) -> Fault {
    Fault::new(Code::RestoreState, format_args!("check the credentials of restored process {pid}"), why)
        .advise("create the container with the security settings that the saved one had")
}

fn limits(spec: &Spec) -> Result<Limits> {
    let process = spec.process().as_ref();
    let capabilities = process.and_then(|process| process.capabilities().as_ref());
    let bounding = capabilities.and_then(|sets| sets.bounding().clone()).unwrap_or_default();
    let ambient = capabilities.and_then(|sets| sets.ambient().clone()).unwrap_or_default();
    let no_new_privs = process.and_then(|process| process.no_new_privileges()).unwrap_or(false);
    let user = process.map(|process| process.user()).filter(|user| user.uid() != 0);
    // Of a user who is not root only ambient capabilities live on in a program that gives none.
    let reachable = if no_new_privs { &ambient } else { &bounding };
    let bound_by = |capability| user.filter(|_| !reachable.contains(&capability));
    let uid = bound_by(Capability::Setuid).map(|user| on_host(spec, Mappings::Users, user.uid()));
    let groups = match bound_by(Capability::Setgid) {
        Some(user) => Some((on_host(spec, Mappings::Groups, user.gid()), supplementary(spec, user)?)),
        None => None,
    };
    let filtered = spec.linux().as_ref().is_some_and(|linux| linux.seccomp().is_some());
    Ok(Limits { capabilities: mask(&bounding), root: user.is_none(), uid, groups, no_new_privs, filtered })
}

/// The groups that libcontainer gives a process beside its own: those of the spec, or else ours.
fn supplementary(spec: &Spec, user: &User) -> Result<BTreeSet<u32>> {
    let asked = user.additional_gids().as_deref().unwrap_or_default();
    if !asked.is_empty() {
        return Ok(asked.iter().map(|gid| on_host(spec, Mappings::Groups, *gid)).collect());
    }
    let own = nix::unistd::getgroups().map_err(std::io::Error::from).attempt(|| "read our own groups")?;
    Ok(own.into_iter().map(nix::unistd::Gid::as_raw).collect())
}

enum Mappings {
    Users,
    Groups,
}

/// A user or group of the spec as this host numbers it. One that is not mapped is no process's.
fn on_host(spec: &Spec, which: Mappings, id: u32) -> u32 {
    let mappings = spec.linux().as_ref().and_then(|linux| match which {
        Mappings::Users => linux.uid_mappings().as_ref(),
        Mappings::Groups => linux.gid_mappings().as_ref(),
    });
    let Some(mappings) = mappings.filter(|mappings| !mappings.is_empty()) else { return id };
    let mapped = |mapping: &LinuxIdMapping| {
        let offset = id.checked_sub(mapping.container_id()).filter(|offset| *offset < mapping.size())?;
        mapping.host_id().checked_add(offset)
    };
    mappings.iter().find_map(mapped).unwrap_or(u32::MAX)
}

fn mask(capabilities: &Capabilities) -> u64 {
    capabilities.iter().map(|capability| capability.to_cap().bitmask()).fold(0, |mask, bit| mask | bit)
}

/// Compares a `/proc/PID/task/TID/status` (proc_pid_status(5)) with what is allowed.
fn compare(limits: &Limits, status: &str) -> std::result::Result<(), String> {
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
    let numbers = |name: &str| {
        let words = field(name)?.split_ascii_whitespace();
        words
            .map(|word| word.parse::<u32>().map_err(|err| format!("{name}: {err}")))
            .collect::<std::result::Result<Vec<_>, _>>()
    };
    if let Some(wanted) = limits.uid
        && let Some(other) = numbers("Uid")?.into_iter().find(|uid| *uid != wanted)
    {
        return Err(format!("it has user {other}; the live spec names {wanted}"));
    }
    if !limits.root && field("Uid")?.split_ascii_whitespace().any(|uid| uid == "0") {
        return Err("it is root; the live spec names another user".into());
    }
    if let Some((wanted, more)) = &limits.groups {
        if let Some(other) = numbers("Gid")?.into_iter().find(|gid| gid != wanted) {
            return Err(format!("it has group {other}; the live spec names {wanted}"));
        }
        if let Some(other) = numbers("Groups")?.into_iter().find(|gid| gid != wanted && !more.contains(gid)) {
            return Err(format!("it has the supplementary group {other}; the live spec names {more:?}"));
        }
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

    const STATUS: &str = "Name:\tx\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t \nCapInh:\t0000000000000000\n\
        CapPrm:\t0000000000000003\nCapEff:\t0000000000000003\nCapBnd:\t0000000000000003\nCapAmb:\t0000000000000000\n\
        NoNewPrivs:\t1\nSeccomp:\t2\n";
    const LIMITS: Limits =
        Limits { capabilities: 3, root: true, uid: None, groups: None, no_new_privs: true, filtered: true };

    #[test]
    fn what_the_live_spec_allows_passes() {
        assert_eq!(compare(&LIMITS, STATUS), Ok(()));
    }

    #[test]
    fn everything_beyond_it_is_named() {
        let less = Limits { capabilities: 1, ..LIMITS };
        assert_eq!(compare(&less, STATUS).expect_err("capability"), "CapPrm has 0x2 beyond the live spec");
        let user = Limits { root: false, ..LIMITS };
        assert!(compare(&user, STATUS).expect_err("root").contains("root"));
        let free = STATUS.replace("NoNewPrivs:\t1", "NoNewPrivs:\t0");
        assert!(compare(&LIMITS, &free).expect_err("privileges").contains("gain privileges"));
        let unfiltered = STATUS.replace("Seccomp:\t2", "Seccomp:\t0");
        assert!(compare(&LIMITS, &unfiltered).expect_err("filter").contains("seccomp"));
    }

    #[test]
    fn a_user_that_cannot_become_another_must_be_itself() {
        let limits = Limits { root: false, uid: Some(7), groups: Some((8, BTreeSet::from([9]))), ..LIMITS };
        let status = |uids: &str, gids: &str, groups: &str| {
            let status = STATUS.replace("Uid:\t0\t0\t0\t0", &format!("Uid:\t{uids}"));
            status
                .replace("Gid:\t0\t0\t0\t0", &format!("Gid:\t{gids}"))
                .replace("Groups:\t ", &format!("Groups:\t{groups} "))
        };
        let (own, group) = ("7\t7\t7\t7", "8\t8\t8\t8");
        for groups in ["", "8", "8 9", "9"] {
            assert_eq!(compare(&limits, &status(own, group, groups)), Ok(()));
        }
        let refused = |status: String| compare(&limits, &status).expect_err("refused");
        assert_eq!(refused(status("7\t7\t5\t7", group, "")), "it has user 5; the live spec names 7");
        assert_eq!(refused(status(own, "8\t8\t8\t0", "")), "it has group 0; the live spec names 8");
        assert_eq!(refused(status(own, group, "8 9 0")), "it has the supplementary group 0; the live spec names {9}");
    }

    #[test]
    fn who_can_become_another_is_told_by_the_live_spec() {
        let of = |uid: u32, bounding: &str, more: &str| {
            let text = format!(
                r#"{{"ociVersion": "1.0.2", "process": {{"cwd": "/", "capabilities": {{"bounding": [{bounding}]}}{more},
                    "user": {{"uid": {uid}, "gid": 8, "additionalGids": [8, 9]}}}},
                    "linux": {{"uidMappings": [{{"containerID": 5, "hostID": 100, "size": 10}}]}}}}"#
            );
            let limits = limits(&serde_json::from_str(&text).expect("a spec")).expect("limits");
            (limits.uid, limits.groups)
        };
        let groups = Some((8, BTreeSet::from([8, 9])));
        assert_eq!(of(7, "", ""), (Some(102), groups.clone()));
        assert_eq!(of(15, "", ""), (Some(u32::MAX), groups.clone()), "not mapped");
        assert_eq!(of(7, r#""CAP_SETUID""#, ""), (None, groups.clone()));
        assert_eq!(of(7, r#""CAP_SETGID""#, ""), (Some(102), None));
        let both = r#""CAP_SETUID", "CAP_SETGID""#;
        assert_eq!(of(7, both, ""), (None, None), "a program can have their bits");
        assert_eq!(of(7, both, r#", "noNewPrivileges": true"#), (Some(102), groups));
        assert_eq!(of(0, "", ""), (None, None));
    }

    #[test]
    fn a_status_that_says_nothing_is_refused() {
        assert!(compare(&LIMITS, "").is_err());
    }
}
