//! What this process may do, as the driver decides it: by the nodes that it can open.
//!
//! The driver takes a capability (MIG user guide, "Device Nodes and Capabilities") from whoever can open its node below
//! `/dev/nvidia-caps`, and grants all of them to a process with `CAP_SYS_ADMIN`.

use std::fs;
use std::path::Path;

use baton_sim_model::{CAPABILITY_MAJOR, Capability};
use baton_sim_wire::{InstanceId, device_opens};

/// The bit of `CAP_SYS_ADMIN` (linux/capability.h).
const SYS_ADMIN: u32 = 21;

/// Whether this process has a capability of the driver whose nodes lie below `root`.
pub fn has(root: &Path, capability: Capability) -> bool {
    let node = root.join("dev/nvidia-caps").join(format!("nvidia-cap{}", capability.minor()));
    device_opens(&node, (CAPABILITY_MAJOR, capability.minor()), false) || is_system_administrator()
}

/// Whether this process may see all instances of all cards.
pub fn sees_everything(root: &Path) -> bool {
    has(root, Capability::Monitor) || has(root, Capability::Config)
}

/// Whether this process may use a MIG device of the card with that minor number, and thus sees it.
pub fn sees(root: &Path, minor: u32, instance: InstanceId) -> bool {
    let own = [Capability::GpuInstance(minor, instance.gpu), Capability::ComputeInstance(minor, instance)];
    sees_everything(root) || own.into_iter().all(|capability| has(root, capability))
}

/// Whether this process is root, as the driver's own check of administrators wants it.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no precondition.
    unsafe { libc::geteuid() == 0 }
}

/// Only the first user namespace's counts, as for the kernel's `capable`.
fn is_system_administrator() -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let map = read("/proc/self/uid_map");
    map.split_whitespace().eq(["0", "0", "4294967295"]) && effective(&read("/proc/self/status")) >> SYS_ADMIN & 1 == 1
}

/// The effective capabilities in `/proc/PID/status`.
fn effective(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_capabilities_are_read() {
        let status = "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000200001\nCapBnd:\t000001ffffffffff\n";
        assert_eq!(effective(status), 1 << 21 | 1);
        assert_eq!(effective("Name:\tx\n"), 0);
    }

    #[test]
    fn a_file_that_is_no_node_opens_nothing() {
        assert!(!device_opens(Path::new("/dev/null"), (CAPABILITY_MAJOR, 3), false));
        assert!(!device_opens(Path::new("/nowhere"), (CAPABILITY_MAJOR, 3), false));
    }
}
