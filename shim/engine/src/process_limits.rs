//! The resource limits of rebuilt processes and how ready the kernel is to kill them, by the live spec.

use std::collections::BTreeSet;
use std::fs;

use baton_fault::{Attempt, Fault, Result};
use nix::errno::Errno;
use oci_spec::runtime::Spec;

use crate::bundle::Bundle;

/// Kinds of limits: RLIM_NLIMITS of asm-generic/resource.h.
const KINDS: u32 = 16;

/// Gives all of `pids` the live spec's `oom_score_adj`, and its hard limits; for a kind that it does not name, that of
/// an ordinary container, which is ours. Soft limits stay what the process made of them, up to the hard ones.
///
/// Where the node lacks the privilege to raise a hard limit or to lower a score, the process keeps the stricter one.
pub(crate) fn set(bundle: &Bundle, pids: &BTreeSet<i32>) -> Result<()> {
    let hard = hard_limits(&bundle.spec)?;
    let score = bundle.spec.process().as_ref().and_then(|process| process.oom_score_adj());
    for pid in pids {
        for (kind, hard) in (0..KINDS).zip(&hard) {
            limit(*pid, kind, *hard).map_err(|err| {
                Fault::io(format_args!("set resource limit {kind} of restored process {pid} to {hard}"), &err.into())
            })?;
        }
        if let Some(score) = score {
            let path = format!("/proc/{pid}/oom_score_adj");
            match fs::write(&path, score.to_string()) {
                Err(err) if err.kind() == std::io::ErrorKind::PermissionDenied => {}
                written => written.attempt(|| format!("write {score} to {path}"))?,
            }
        }
    }
    Ok(())
}

fn hard_limits(spec: &Spec) -> Result<Vec<u64>> {
    let asked = spec.process().as_ref().and_then(|process| process.rlimits().as_deref()).unwrap_or_default();
    (0..KINDS)
        .map(|kind| match asked.iter().find(|limit| limit.typ() as u32 == kind) {
            Some(limit) => Ok(limit.hard()),
            None => prlimit(0, kind, None)
                .map(|own| own.rlim_max)
                .map_err(|err| Fault::io(format_args!("read resource limit {kind}"), &err.into())),
        })
        .collect()
}

fn limit(pid: i32, kind: u32, hard: u64) -> nix::Result<()> {
    let saved = prlimit(pid, kind, None)?;
    if saved.rlim_max == hard {
        return Ok(());
    }
    let wanted = libc::rlimit64 { rlim_cur: saved.rlim_cur.min(hard), rlim_max: hard };
    match prlimit(pid, kind, Some(wanted)) {
        Err(Errno::EPERM) if saved.rlim_max < hard => Ok(()),
        set => set.map(drop),
    }
}

/// The limit of process `pid` (0 is this one) before it is set to `new`.
fn prlimit(pid: i32, kind: u32, new: Option<libc::rlimit64>) -> nix::Result<libc::rlimit64> {
    let mut old = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let new = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both pointers are to structures of ours, or null, which the call allows for the new one.
    Errno::result(unsafe { libc::prlimit64(pid, kind as libc::__rlimit_resource_t, new, &raw mut old) })?;
    Ok(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RLIMIT_NOFILE of asm-generic/resource.h.
    const NOFILE: u32 = 7;

    #[test]
    fn the_spec_counts_and_for_what_it_does_not_name_ours() {
        let text = r#"{"ociVersion": "1.0.2", "process": {"cwd": "/", "user": {"uid": 0, "gid": 0},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 77, "soft": 66}]}}"#;
        let hard = hard_limits(&serde_json::from_str(text).expect("a spec")).expect("limits");
        assert_eq!((hard.len(), hard[NOFILE as usize]), (16, 77));
        assert_eq!(hard[0], prlimit(0, 0, None).expect("own").rlim_max);
    }

    #[test]
    fn a_hard_limit_is_lowered_and_takes_the_soft_one_with_it() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let pid = child.id().cast_signed();
        let outcome = [40, 30].map(|hard| {
            limit(pid, NOFILE, hard).expect("lower");
            prlimit(pid, NOFILE, None).map(|limit| (limit.rlim_cur, limit.rlim_max))
        });
        child.kill().and_then(|()| child.wait()).expect("end it");
        assert_eq!(outcome, [Ok((40, 40)), Ok((30, 30))]);
    }
}
