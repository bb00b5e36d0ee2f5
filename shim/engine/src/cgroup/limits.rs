//! What a spec allows a container, as the values of the files of cgroup version 1.
//!
//! The crate for this sets up one manager per call, which looks every controller up in the mount table several times;
//! for the limits that every container has this module writes them itself. The files are described in the kernel's
//! Documentation/admin-guide/cgroup-v1.

use oci_spec::runtime::{LinuxDeviceCgroup, LinuxResources};

/// One value for one file of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// The controller in whose hierarchy the file is.
    pub(crate) controller: &'static str,
    /// The file in the container's folder.
    pub(crate) file: String,
    /// What is written into it.
    pub(crate) value: String,
}

/// Devices that every container may use whatever its spec says: making nodes, the standard devices, terminals
/// (`AllowedDevices` of runc).
const ALWAYS: &[&str] = &[
    "c *:* m",
    "b *:* m",
    "c 1:3 rwm",
    "c 1:8 rwm",
    "c 1:7 rwm",
    "c 5:0 rwm",
    "c 1:5 rwm",
    "c 1:9 rwm",
    "c 5:1 rwm",
    "c 136:* rwm",
    "c 5:2 rwm",
];

/// The limits of `resources`, in the order in which they are written.
pub(crate) fn of(resources: Option<&LinuxResources>) -> Vec<Limit> {
    let mut limits = Limits(Vec::new());
    if let Some(resources) = resources {
        limits.cpu(resources);
        limits.memory(resources);
        limits.pids_and_pages(resources);
        limits.block_io(resources);
        limits.network(resources);
    }
    limits.devices(resources.and_then(|resources| resources.devices().as_deref()).unwrap_or_default());
    limits.0
}

struct Limits(Vec<Limit>);

impl Limits {
    fn add(&mut self, controller: &'static str, file: impl Into<String>, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.0.push(Limit { controller, file: file.into(), value: value.to_string() });
        }
    }

    fn cpu(&mut self, resources: &LinuxResources) {
        let Some(cpu) = resources.cpu() else { return };
        self.add("cpuset", "cpuset.cpus", cpu.cpus().as_ref().filter(|cpus| !cpus.is_empty()));
        self.add("cpuset", "cpuset.mems", cpu.mems().as_ref().filter(|mems| !mems.is_empty()));
        self.add("cpu", "cpu.shares", cpu.shares().filter(|shares| *shares != 0));
        self.add("cpu", "cpu.cfs_period_us", cpu.period().filter(|period| *period != 0));
        self.add("cpu", "cpu.cfs_quota_us", cpu.quota().filter(|quota| *quota != 0));
        self.add("cpu", "cpu.cfs_burst_us", cpu.burst());
        self.add("cpu", "cpu.rt_period_us", cpu.realtime_period().filter(|period| *period != 0));
        self.add("cpu", "cpu.rt_runtime_us", cpu.realtime_runtime().filter(|runtime| *runtime != 0));
        self.add("cpu", "cpu.idle", cpu.idle());
    }

    fn memory(&mut self, resources: &LinuxResources) {
        let Some(memory) = resources.memory() else { return };
        // A fresh group is unlimited, so the limit may come before that of memory and swap together.
        self.add("memory", "memory.limit_in_bytes", memory.limit().filter(|limit| *limit != 0));
        self.add("memory", "memory.memsw.limit_in_bytes", memory.swap().filter(|swap| *swap != 0));
        self.add("memory", "memory.soft_limit_in_bytes", memory.reservation().filter(|soft| *soft != 0));
        self.add("memory", "memory.kmem.tcp.limit_in_bytes", memory.kernel_tcp().filter(|limit| *limit != 0));
        self.add("memory", "memory.swappiness", memory.swappiness());
        self.add("memory", "memory.oom_control", memory.disable_oom_killer().filter(|off| *off).map(|_| 1));
    }

    fn pids_and_pages(&mut self, resources: &LinuxResources) {
        if let Some(pids) = resources.pids() {
            match pids.limit() {
                limit if limit > 0 => self.add("pids", "pids.max", Some(limit)),
                limit if limit < 0 => self.add("pids", "pids.max", Some("max")),
                _ => {}
            }
        }
        for pages in resources.hugepage_limits().iter().flatten() {
            self.add("hugetlb", format!("hugetlb.{}.limit_in_bytes", pages.page_size()), Some(pages.limit()));
        }
    }

    fn block_io(&mut self, resources: &LinuxResources) {
        let Some(io) = resources.block_io() else { return };
        self.add("blkio", "blkio.bfq.weight", io.weight().filter(|weight| *weight != 0));
        for device in io.weight_device().iter().flatten() {
            let value = device.weight().map(|weight| format!("{}:{} {weight}", device.major(), device.minor()));
            self.add("blkio", "blkio.bfq.weight_device", value);
        }
        for (file, devices) in [
            ("blkio.throttle.read_bps_device", io.throttle_read_bps_device()),
            ("blkio.throttle.write_bps_device", io.throttle_write_bps_device()),
            ("blkio.throttle.read_iops_device", io.throttle_read_iops_device()),
            ("blkio.throttle.write_iops_device", io.throttle_write_iops_device()),
        ] {
            for device in devices.iter().flatten() {
                let value = format!("{}:{} {}", device.major(), device.minor(), device.rate());
                self.add("blkio", file, Some(value));
            }
        }
    }

    fn network(&mut self, resources: &LinuxResources) {
        let Some(network) = resources.network() else { return };
        self.add("net_cls", "net_cls.classid", network.class_id().filter(|class| *class != 0));
        for priority in network.priorities().iter().flatten() {
            self.add("net_prio", "net_prio.ifpriomap", Some(format!("{} {}", priority.name(), priority.priority())));
        }
    }

    fn devices(&mut self, rules: &[LinuxDeviceCgroup]) {
        for rule in rules {
            let file = if rule.allow() { "devices.allow" } else { "devices.deny" };
            self.add("devices", file, Some(rule));
        }
        for rule in ALWAYS {
            self.add("devices", "devices.allow", Some(rule));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(resources: &str) -> Vec<String> {
        let resources: LinuxResources = serde_json::from_str(resources).expect("resources");
        let limits = of(Some(&resources));
        let written = limits.iter().filter(|limit| !ALWAYS.contains(&limit.value.as_str()));
        written.map(|limit| format!("{} {} {}", limit.controller, limit.file, limit.value)).collect()
    }

    #[test]
    fn limits_of_a_pod_are_the_files_that_runc_writes() {
        assert_eq!(
            lines(
                r#"{"cpu":{"shares":1024,"quota":50000,"period":100000,"cpus":"0-1"},
                    "memory":{"limit":67108864,"swap":67108864},"pids":{"limit":100},
                    "devices":[{"allow":false,"access":"rwm"},{"allow":true,"type":"c","major":195,"minor":0,"access":"rw"}]}"#
            ),
            [
                "cpuset cpuset.cpus 0-1",
                "cpu cpu.shares 1024",
                "cpu cpu.cfs_period_us 100000",
                "cpu cpu.cfs_quota_us 50000",
                "memory memory.limit_in_bytes 67108864",
                "memory memory.memsw.limit_in_bytes 67108864",
                "pids pids.max 100",
                "devices devices.deny a *:* rwm",
                "devices devices.allow c 195:0 rw",
            ]
        );
    }

    #[test]
    fn zeros_and_empty_texts_set_nothing() {
        assert!(lines(r#"{"cpu":{"shares":0,"cpus":""},"memory":{"limit":0},"pids":{"limit":0}}"#).is_empty());
        assert_eq!(lines(r#"{"pids":{"limit":-1}}"#), ["pids pids.max max"]);
        assert_eq!(of(None).len(), ALWAYS.len());
    }
}
