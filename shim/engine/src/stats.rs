//! What a container uses: the files of its cgroup, in the form of runc's `events --stats`.

use std::fs;
use std::path::PathBuf;

use baton_fault::{Code, Fault, Result};
use libcontainer::container::ContainerStatus;
use serde_json::{Map, Value, json};

use crate::Engine;
use crate::cgroup::Cgroup;

/// Ticks in a second in which cgroup version 1 counts user and system time: USER_HZ of the kernel's interface.
const TICKS: u64 = 100;
/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// Where the kernel lists its sizes of huge pages.
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";

impl Engine {
    /// What a container uses now.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STATE` when it has ended.
    pub fn stats(&self, id: &str) -> Result<Value> {
        let container = self.load(id)?;
        if container.status() == ContainerStatus::Stopped {
            let what = format!("measure container {id}");
            return Err(Fault::new(Code::State, what, "container not running").advise("start it first"));
        }
        Ok(of(&Cgroup::of(&container)?))
    }
}

/// What is used in a cgroup. A file that is not there counts as nothing, as with runc.
pub(crate) fn of(cgroup: &Cgroup) -> Value {
    let files = Files(cgroup);
    let (cpu, memory, blkio) = if cgroup.is_unified() {
        (files.cpu_unified(), files.memory_unified(), files.io_unified())
    } else {
        (files.cpu_v1(), files.memory_v1(), files.blkio_v1())
    };
    json!({
        "cpu": cpu,
        "cpuset": files.cpuset(),
        "memory": memory,
        "pids": some(&[
            ("current", files.number("pids", "pids.current")),
            ("limit", files.number("pids", "pids.max").filter(|limit| *limit != u64::MAX)),
        ]),
        "blkio": blkio,
        "hugetlb": files.huge_pages(),
        "intel_rdt": {},
        "network_interfaces": null,
    })
}

/// An object of those that are there and not 0.
fn some(entries: &[(&str, Option<u64>)]) -> Value {
    let there = entries.iter().filter_map(|(name, value)| {
        let value = value.filter(|value| *value != 0)?;
        Some(((*name).to_owned(), json!(value)))
    });
    Value::Object(there.collect())
}

/// The files of a container's cgroup.
struct Files<'a>(&'a Cgroup);

impl Files<'_> {
    fn path(&self, controller: &str, file: &str) -> Option<PathBuf> {
        self.0.controller(controller).map(|folder| folder.join(file))
    }

    fn text(&self, controller: &str, file: &str) -> String {
        self.path(controller, file).and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default()
    }

    /// The one number in a file; `max` is the largest.
    fn number(&self, controller: &str, file: &str) -> Option<u64> {
        number(self.text(controller, file).trim())
    }

    /// The lines `key value` of a file.
    fn table(&self, controller: &str, file: &str) -> Map<String, Value> {
        let text = self.text(controller, file);
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs.filter_map(|(key, value)| Some((key.to_owned(), json!(number(value.trim())?)))).collect()
    }

    fn cpu_v1(&self) -> Value {
        let stat = self.table("cpuacct", "cpuacct.stat");
        let ticks = |key: &str| get(&stat, key) * (SECOND / TICKS);
        let per_cpu = |file: &str| -> Vec<u64> {
            self.text("cpuacct", file).split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        let mut usage = json!({ "kernel": ticks("system"), "user": ticks("user") });
        if let Some(total) = self.number("cpuacct", "cpuacct.usage").filter(|total| *total != 0) {
            usage["total"] = json!(total);
        }
        for (key, file) in [
            ("percpu", "cpuacct.usage_percpu"),
            ("percpu_kernel", "cpuacct.usage_percpu_sys"),
            ("percpu_user", "cpuacct.usage_percpu_user"),
        ] {
            let all = per_cpu(file);
            if !all.is_empty() {
                usage[key] = json!(all);
            }
        }
        let stat = self.table("cpu", "cpu.stat");
        let throttled = |key: &str| Some(get(&stat, key));
        json!({ "usage": usage, "throttling": some(&[
            ("periods", throttled("nr_periods")),
            ("throttledPeriods", throttled("nr_throttled")),
            ("throttledTime", throttled("throttled_time")),
        ]) })
    }

    fn cpu_unified(&self) -> Value {
        let stat = self.table("cpu", "cpu.stat");
        let nanoseconds = |key: &str| get(&stat, key) * 1000;
        let mut usage = json!({ "kernel": nanoseconds("system_usec"), "user": nanoseconds("user_usec") });
        if nanoseconds("usage_usec") != 0 {
            usage["total"] = json!(nanoseconds("usage_usec"));
        }
        json!({ "usage": usage, "throttling": some(&[
            ("periods", Some(get(&stat, "nr_periods"))),
            ("throttledPeriods", Some(get(&stat, "nr_throttled"))),
            ("throttledTime", Some(nanoseconds("throttled_usec"))),
        ]) })
    }

    fn cpuset(&self) -> Value {
        let flag = |name: &str| self.number("cpuset", &format!("cpuset.{name}")).unwrap_or(0);
        let list = |names: [&str; 2]| names.map(|name| self.text("cpuset", name)).into_iter().find_map(|t| list(&t));
        let mut set = json!({
            "cpu_exclusive": flag("cpu_exclusive"),
            "mem_hardwall": flag("mem_hardwall"),
            "mem_exclusive": flag("mem_exclusive"),
            "memory_migrate": flag("memory_migrate"),
            "memory_spread_page": flag("memory_spread_page"),
            "memory_spread_slab": flag("memory_spread_slab"),
            "memory_pressure": flag("memory_pressure"),
            "sched_load_balance": flag("sched_load_balance"),
            "sched_relax_domain_level":
                self.text("cpuset", "cpuset.sched_relax_domain_level").trim().parse::<i64>().unwrap_or(0),
        });
        if !self.0.is_unified() {
            for (key, files) in
                [("cpus", ["cpuset.cpus", "cpuset.effective_cpus"]), ("mems", ["cpuset.mems", "cpuset.effective_mems"])]
            {
                if let Some(all) = list(files) {
                    set[key] = json!(all);
                }
            }
        }
        set
    }

    fn memory_v1(&self) -> Value {
        let raw = self.table("memory", "memory.stat");
        let entry = |prefix: &str| {
            let file = |name: &str| self.number("memory", &format!("memory.{prefix}{name}"));
            let used = some(&[("usage", file("usage_in_bytes")), ("max", file("max_usage_in_bytes"))]);
            with(used, &[("limit", file("limit_in_bytes").unwrap_or(0)), ("failcnt", file("failcnt").unwrap_or(0))])
        };
        let mut memory = json!({
            "usage": entry(""), "swap": entry("memsw."), "kernel": entry("kmem."), "kernelTCP": entry("kmem.tcp."),
        });
        if get(&raw, "cache") != 0 {
            memory["cache"] = raw["cache"].clone();
        }
        if !raw.is_empty() {
            memory["raw"] = Value::Object(raw);
        }
        memory
    }

    fn memory_unified(&self) -> Value {
        let raw = self.table("memory", "memory.stat");
        let events = self.table("memory", "memory.events");
        let file = |name: &str| self.number("memory", name);
        let entry = |usage: Option<u64>, max: Option<u64>, limit: Option<u64>, failures: u64| {
            let used = some(&[("usage", usage), ("max", max)]);
            with(used, &[("limit", limit.unwrap_or(0)), ("failcnt", failures)])
        };
        let (used, limit) = (file("memory.current"), file("memory.max"));
        // As with version 1, what is called swap is both together.
        let both = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other.unwrap_or(0)));
        let mut memory = json!({
            "usage": entry(used, file("memory.peak"), limit, get(&events, "max")),
            "swap": entry(both(used, file("memory.swap.current")), None, both(limit, file("memory.swap.max")), 0),
            "kernel": entry(None, None, None, 0),
            "kernelTCP": entry(None, None, None, 0),
        });
        if get(&raw, "file") != 0 {
            memory["cache"] = raw["file"].clone();
        }
        if !raw.is_empty() {
            memory["raw"] = Value::Object(raw);
        }
        memory
    }

    fn blkio_v1(&self) -> Value {
        let mut all = Map::new();
        for (key, files) in [
            ("ioServiceBytesRecursive", ["io_service_bytes_recursive", "throttle.io_service_bytes_recursive"]),
            ("ioServicedRecursive", ["io_serviced_recursive", "throttle.io_serviced_recursive"]),
        ] {
            let bfq = files.map(|file| {
                let scheduled = self.text("blkio", &format!("blkio.bfq.{file}"));
                let text = if scheduled.is_empty() { self.text("blkio", &format!("blkio.{file}")) } else { scheduled };
                text.lines().filter_map(operation).collect::<Vec<_>>()
            });
            if let Some(entries) = bfq.into_iter().find(|entries| !entries.is_empty()) {
                all.insert(key.to_owned(), json!(entries));
            }
        }
        Value::Object(all)
    }

    fn io_unified(&self) -> Value {
        let (mut bytes, mut operations) = (Vec::new(), Vec::new());
        for line in self.text("io", "io.stat").lines() {
            let mut words = line.split_whitespace();
            let Some((major, minor)) = words.next().and_then(device) else { continue };
            for (key, value) in words.filter_map(|word| word.split_once('=')) {
                let Some(value) = number(value) else { continue };
                match key {
                    "rbytes" => bytes.push(entry(major, minor, "Read", value)),
                    "wbytes" => bytes.push(entry(major, minor, "Write", value)),
                    "rios" => operations.push(entry(major, minor, "Read", value)),
                    "wios" => operations.push(entry(major, minor, "Write", value)),
                    _ => {}
                }
            }
        }
        let lists = [("ioServiceBytesRecursive", bytes), ("ioServicedRecursive", operations)];
        let there = lists.into_iter().filter(|(_, list)| !list.is_empty());
        Value::Object(there.map(|(key, list)| (key.to_owned(), json!(list))).collect())
    }

    fn huge_pages(&self) -> Value {
        let mut all = Map::new();
        for size in fs::read_dir(HUGE_PAGES).into_iter().flatten().flatten() {
            let name = size.file_name();
            let kilobytes = name.to_str().and_then(|name| name.strip_prefix("hugepages-")?.strip_suffix("kB"));
            let Some(size) = kilobytes.and_then(|text| text.parse().ok()).map(page_size) else { continue };
            let file = |v1: &str, v2: &str| {
                let name = if self.0.is_unified() { v2 } else { v1 };
                self.number("hugetlb", &format!("hugetlb.{size}.{name}"))
            };
            let used =
                some(&[("usage", file("usage_in_bytes", "current")), ("max", file("max_usage_in_bytes", "max"))]);
            let failures = match self.0.is_unified() {
                true => get(&self.table("hugetlb", &format!("hugetlb.{size}.events")), "max"),
                false => file("failcnt", "failcnt").unwrap_or(0),
            };
            if self.path("hugetlb", "cgroup.procs").is_some_and(|path| path.exists()) {
                all.insert(size.clone(), with(used, &[("failcnt", failures)]));
            }
        }
        Value::Object(all)
    }
}

fn number(text: &str) -> Option<u64> {
    if text == "max" { Some(u64::MAX) } else { text.parse().ok() }
}

fn get(table: &Map<String, Value>, key: &str) -> u64 {
    table.get(key).and_then(Value::as_u64).unwrap_or(0)
}

fn with(mut object: Value, entries: &[(&str, u64)]) -> Value {
    for (key, value) in entries {
        object[*key] = json!(value);
    }
    object
}

/// `8:0`.
fn device(text: &str) -> Option<(u64, u64)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `8:0 Read 4096`.
fn operation(line: &str) -> Option<Value> {
    let mut words = line.split_whitespace();
    let (major, minor) = device(words.next()?)?;
    Some(entry(major, minor, words.next()?, words.next()?.parse().ok()?))
}

fn entry(major: u64, minor: u64, operation: &str, value: u64) -> Value {
    with(json!({ "op": operation }), &[("major", major), ("minor", minor), ("value", value)])
}

/// As in the names of the files: `2MB`, `1GB`.
fn page_size(kilobytes: u64) -> String {
    match kilobytes {
        size if size >= 1 << 20 => format!("{}GB", size >> 20),
        size if size >= 1 << 10 => format!("{}MB", size >> 10),
        size => format!("{size}KB"),
    }
}

/// `0-2,7` as numbers; `None` when it is empty or no such list.
fn list(text: &str) -> Option<Vec<u16>> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_forms_are_read() {
        assert_eq!(list("0-2,7\n"), Some(vec![0, 1, 2, 7]));
        assert_eq!(list("\n"), None);
        assert_eq!(operation("8:0 Read 4096"), Some(json!({ "major": 8, "minor": 0, "op": "Read", "value": 4096 })));
        assert_eq!(operation("Total 0"), None);
        assert_eq!([64, 2048, 1 << 20].map(page_size), ["64KB", "2MB", "1GB"]);
        assert_eq!((number("max"), number("x")), (Some(u64::MAX), None));
    }

    #[test]
    fn what_is_nothing_is_left_out() {
        assert_eq!(some(&[("a", Some(0)), ("b", None), ("c", Some(3))]), json!({ "c": 3 }));
    }
}
