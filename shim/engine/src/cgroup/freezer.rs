//! The freezer of cgroup version 1.

use std::fs;
use std::path::Path;
use std::time::Duration;

use baton_fault::{Attempt, Code, Fault, Result};
use libcgroups::common::FreezerState;

use super::write;
use crate::process::wait_until;

/// Longest wait for all tasks to stop.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Freezes or thaws the group in `folder` and waits until it is so.
///
/// The state is written again and again while it says FREEZING: a task that forks meanwhile, or one that is being
/// traced, keeps the group in that state until it is asked once more
/// (Documentation/admin-guide/cgroup-v1/freezer-subsystem of the kernel).
pub(super) fn set(folder: &Path, state: FreezerState) -> Result<()> {
    let file = folder.join("freezer.state");
    let wanted = match state {
        FreezerState::Frozen => "FROZEN",
        _ => "THAWED",
    };
    let mut last = Ok(String::new());
    let reached = wait_until(TIMEOUT, || {
        last = write(&file, wanted)
            .and_then(|()| fs::read_to_string(&file).attempt(|| format!("read {}", file.display())));
        !last.as_ref().is_ok_and(|now| now.trim() != wanted)
    });
    let now = last?;
    if reached {
        return Ok(());
    }
    if wanted == "FROZEN" {
        // Nothing stays half frozen.
        write(&file, "THAWED")?;
    }
    Err(Fault::new(
        Code::Deadline,
        format_args!("write {wanted} to {}", file.display()),
        format_args!("it says {} after {} s", now.trim(), TIMEOUT.as_secs()),
    )
    .advise("see whether a process of the container hangs in the kernel"))
}
