//! `update`: other limits for a running container.

use std::fs;

use baton_fault::{Code, Fault, Result};
use libcontainer::container::ContainerStatus;

use crate::Engine;
use crate::cgroup::Cgroup;
use crate::resources::{BlockIo, Cpu, Memory, Resources};

impl Engine {
    /// Gives a container other limits, at once. What `resources` leaves out stays as it is; its devices always do.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STATE` when it has ended, `SYSTEM` naming the limit that the kernel refuses; limits before it in
    /// the order of the fields are set by then.
    pub fn update(&self, id: &str, resources: &Resources) -> Result<()> {
        let container = self.load(id)?;
        if container.status() == ContainerStatus::Stopped {
            let what = format_args!("update container {id}").to_string();
            return Err(Fault::new(Code::State, what, "container not running").advise("start it first"));
        }
        let limits = Limits { cgroup: &Cgroup::of(&container)?, id };
        limits.memory(&resources.memory)?;
        limits.cpu(&resources.cpu)?;
        limits.block_io(&resources.block_io)?;
        if let Some(limit) = resources.pids.limit.filter(|limit| *limit != 0) {
            limits.set("pids", "pids.max", &or_max(limit))?;
        }
        resources.unified.iter().try_for_each(|(file, value)| limits.unified(file, value))
    }
}

/// The limits of one container, as files of its cgroup.
struct Limits<'a> {
    cgroup: &'a Cgroup,
    id: &'a str,
}

impl Limits<'_> {
    fn set(&self, controller: &str, file: &str, value: &str) -> Result<()> {
        let what = format!("set {file} of container {} to {value}", self.id);
        let missing = || {
            Fault::new(Code::System, &what, "there is no such limit here")
                .advise(format_args!("see whether the {controller} controller is on"))
        };
        let path = self.cgroup.controller(controller).map(|folder| folder.join(file)).ok_or_else(missing)?;
        match fs::write(&path, value) {
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => Err(missing()),
            Err(err) => Err(Fault::io(&what, &err).advise("use a value that the kernel takes")),
            Ok(()) => Ok(()),
        }
    }

    /// The present value of a limit; `None` where there is none, or no number.
    fn now(&self, controller: &str, file: &str) -> Option<i128> {
        let path = self.cgroup.controller(controller)?.join(file);
        fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    fn memory(&self, memory: &Memory) -> Result<()> {
        let usage = if self.cgroup.is_unified() { "memory.current" } else { "memory.usage_in_bytes" };
        if let Some(limit) = memory.limit.filter(|limit| *limit > 0 && memory.check_before_update)
            && self.now("memory", usage).is_some_and(|used| used > i128::from(limit))
        {
            let what = format!("set the memory limit of container {} to {limit}", self.id);
            return Err(Fault::new(Code::State, what, "it uses more").advise("use a higher limit"));
        }
        if self.cgroup.is_unified() { self.memory_unified(memory) } else { self.memory_v1(memory) }
    }

    fn memory_unified(&self, memory: &Memory) -> Result<()> {
        let limit = memory.limit.filter(|limit| *limit != 0);
        let swap = match (limit, memory.swap.filter(|swap| *swap != 0)) {
            (Some(-1), None) => Some(-1),
            (_, None) => None,
            (_, Some(-1)) => Some(-1),
            // Here it is swap alone; there it was both together.
            (Some(limit), Some(both)) if limit > 0 && both >= limit => Some(both - limit),
            (_, Some(both)) => {
                let what = format!("set the swap limit of container {} to {both}", self.id);
                return Err(Fault::new(Code::Usage, what, "it is for memory and swap together")
                    .advise("pass a memory limit that is not higher"));
            }
        };
        if let Some(swap) = swap {
            self.set("memory", "memory.swap.max", &or_max(swap))?;
        }
        if let Some(limit) = limit {
            self.set("memory", "memory.max", &or_max(limit))?;
        }
        match memory.reservation.filter(|low| *low != 0) {
            Some(low) => self.set("memory", "memory.low", &or_max(low)),
            None => Ok(()),
        }
    }

    fn memory_v1(&self, memory: &Memory) -> Result<()> {
        const LIMIT: &str = "memory.limit_in_bytes";
        const BOTH: &str = "memory.memsw.limit_in_bytes";
        let limit = memory.limit.filter(|limit| *limit != 0);
        let swap = memory.swap.filter(|swap| *swap != 0);
        // Without a limit for memory there is none for both, where swap is accounted at all.
        let swap = swap.or(limit.filter(|limit| *limit == -1 && self.now("memory", BOTH).is_some()));
        let set_limit = || limit.map_or(Ok(()), |limit| self.set("memory", LIMIT, &limit.to_string()));
        let set_both = || swap.map_or(Ok(()), |swap| self.set("memory", BOTH, &swap.to_string()));
        // The kernel wants the limit of both to be the higher one at any time.
        let grows = swap.is_some_and(|swap| swap == -1 || self.now("memory", BOTH) < Some(i128::from(swap)));
        if grows {
            set_both()?;
            set_limit()?;
        } else {
            set_limit()?;
            set_both()?;
        }
        match memory.reservation.filter(|soft| *soft != 0) {
            Some(soft) => self.set("memory", "memory.soft_limit_in_bytes", &soft.to_string()),
            None => Ok(()),
        }
    }

    fn cpu(&self, cpu: &Cpu) -> Result<()> {
        let (cpus, mems) = ("cpuset.cpus", "cpuset.mems");
        for (file, value) in [(cpus, &cpu.cpus), (mems, &cpu.mems)].into_iter().filter(|(_, value)| !value.is_empty()) {
            self.set("cpuset", file, value)?;
        }
        if let Some(idle) = cpu.idle {
            self.set("cpu", "cpu.idle", &idle.to_string())?;
        }
        if self.cgroup.is_unified() { self.cpu_unified(cpu) } else { self.cpu_v1(cpu) }
    }

    fn cpu_unified(&self, cpu: &Cpu) -> Result<()> {
        if let Some(shares) = cpu.shares.filter(|shares| *shares != 0) {
            self.set("cpu", "cpu.weight", &weight(shares).to_string())?;
        }
        if cpu.quota.is_some_and(|quota| quota != 0) || cpu.period.is_some_and(|period| period != 0) {
            let folder = self.cgroup.controller("cpu").unwrap_or_default();
            let now = fs::read_to_string(folder.join("cpu.max")).unwrap_or_default();
            self.set("cpu", "cpu.max", &cpu_max(&now, cpu.quota, cpu.period))?;
        }
        if let Some(burst) = cpu.burst {
            self.set("cpu", "cpu.max.burst", &burst.to_string())?;
        }
        if cpu.realtime_runtime.is_some() || cpu.realtime_period.is_some() {
            let what = format!("set realtime limits of container {}", self.id);
            return Err(Fault::new(Code::System, what, "cgroup version 2 has none").advise("leave them out"));
        }
        Ok(())
    }

    fn cpu_v1(&self, cpu: &Cpu) -> Result<()> {
        let unsigned = [
            ("cpu.shares", cpu.shares),
            ("cpu.rt_period_us", cpu.realtime_period),
            ("cpu.cfs_burst_us", cpu.burst.filter(|burst| *burst == 0)),
            ("cpu.cfs_period_us", cpu.period),
        ];
        for (file, value) in unsigned {
            if let Some(value) = value.filter(|value| *value != 0 || file == "cpu.cfs_burst_us") {
                self.set("cpu", file, &value.to_string())?;
            }
        }
        for (file, value) in [("cpu.cfs_quota_us", cpu.quota), ("cpu.rt_runtime_us", cpu.realtime_runtime)] {
            if let Some(value) = value.filter(|value| *value != 0) {
                self.set("cpu", file, &value.to_string())?;
            }
        }
        // A burst must not be above the quota, the new one.
        match cpu.burst.filter(|burst| *burst != 0) {
            Some(burst) => self.set("cpu", "cpu.cfs_burst_us", &burst.to_string()),
            None => Ok(()),
        }
    }

    fn block_io(&self, block_io: &BlockIo) -> Result<()> {
        let unified = self.cgroup.is_unified();
        if let Some(weight) = block_io.weight.filter(|weight| *weight != 0) {
            match unified {
                true => self.set("io", "io.weight", &format!("default {}", io_weight(weight)))?,
                false => self.set("blkio", "blkio.weight", &weight.to_string())?,
            }
        }
        for (key, name, throttles) in [
            ("rbps", "read_bps", &block_io.throttle_read_bps_device),
            ("wbps", "write_bps", &block_io.throttle_write_bps_device),
            ("riops", "read_iops", &block_io.throttle_read_iops_device),
            ("wiops", "write_iops", &block_io.throttle_write_iops_device),
        ] {
            for throttle in throttles {
                let device = format!("{}:{}", throttle.major, throttle.minor);
                match unified {
                    true => self.set("io", "io.max", &format!("{device} {key}={}", throttle.rate))?,
                    false => {
                        let file = format!("blkio.throttle.{name}_device");
                        self.set("blkio", &file, &format!("{device} {}", throttle.rate))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn unified(&self, file: &str, value: &str) -> Result<()> {
        let what = || format!("set {file} of container {}", self.id);
        if !self.cgroup.is_unified() {
            return Err(Fault::new(Code::Usage, what(), "cgroup version 2 is not in use here").advise("leave it out"));
        }
        // Which process is in which group is no limit.
        if file.contains('/') || file.starts_with("cgroup.") || !file.contains('.') {
            return Err(Fault::new(Code::Usage, what(), "it is no limit").advise("name a limit, as memory.high"));
        }
        self.set(file.split('.').next().unwrap_or_default(), file, value)
    }
}

fn or_max(limit: i64) -> String {
    if limit < 0 { "max".to_owned() } else { limit.to_string() }
}

/// `cpu.max` with another quota or period than it has now.
fn cpu_max(now: &str, quota: Option<i64>, period: Option<u64>) -> String {
    let mut words = now.split_whitespace();
    let (old_quota, old_period) = (words.next().unwrap_or("max"), words.next().unwrap_or("100000"));
    let quota = quota.filter(|quota| *quota != 0).map_or_else(|| old_quota.to_owned(), or_max);
    let period =
        period.filter(|period| *period != 0).map_or_else(|| old_period.to_owned(), |period| period.to_string());
    format!("{quota} {period}")
}

/// Shares of version 1 (2 to 262144, usually 1024) as a weight of version 2 (1 to 10000, usually 100), by the formula
/// that runc and libcgroups use: 2 is 1, 1024 is 100, 262144 is 10000.
fn weight(shares: u64) -> u64 {
    const SHARES: std::ops::RangeInclusive<u64> = 2..=262_144;
    let log = (shares.clamp(*SHARES.start(), *SHARES.end()) as f64).log2();
    let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
    // Between 1 and 10000 for what it is clamped to.
    10f64.powf(exponent).ceil().clamp(1.0, 10_000.0) as u64
}

/// A weight of blkio (10 to 1000) as one of io (1 to 10000), as runc does.
fn io_weight(weight: u16) -> u64 {
    1 + u64::from(weight.clamp(10, 1000) - 10) * 9999 / 990
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_the_other_version() {
        assert_eq!([0, 2, 1024, 262_144, u64::MAX].map(weight), [1, 1, 100, 10_000, 10_000]);
        assert_eq!([10, 1000].map(io_weight), [1, 10_000]);
    }

    #[test]
    fn what_of_cpu_max_is_not_given_stays() {
        assert_eq!(cpu_max("max 100000\n", Some(50_000), None), "50000 100000");
        assert_eq!(cpu_max("50000 100000\n", None, Some(20_000)), "50000 20000");
        assert_eq!(cpu_max("50000 20000\n", Some(-1), Some(0)), "max 20000");
        assert_eq!(cpu_max("", Some(7), None), "7 100000");
    }

    #[test]
    fn the_form_is_that_of_runc() {
        let text = r#"{"memory": {"limit": 5, "checkBeforeUpdate": true}, "cpu": {"realtimePeriod": 3, "cpus": "0"},
            "blockIO": {"weight": 10, "throttleReadIOPSDevice": [{"major": 8, "minor": 0, "rate": 9}]}, "pids": null, "other": 1}"#;
        let resources: Resources = serde_json::from_str(text).expect("resources");
        assert_eq!((resources.memory.limit, resources.memory.check_before_update), (Some(5), true));
        assert_eq!((resources.cpu.realtime_period, resources.cpu.cpus.as_str()), (Some(3), "0"));
        assert_eq!(resources.block_io.throttle_read_iops_device, [Throttle { major: 8, minor: 0, rate: 9 }]);
    }

    use crate::resources::Throttle;
}
