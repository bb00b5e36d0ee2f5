//! cgroup version 1: a folder for each controller.

use std::collections::HashMap;

use containerd_shim_protos::cgroups::metrics::{
    BlkIOEntry, BlkIOStat, CPUStat, CPUUsage, HugetlbStat, MemoryEntry, MemoryOomControl, MemoryStat, Metrics,
    PidsStat, RdmaEntry, RdmaStat, Throttle,
};

use super::{Folder, huge_page_sizes, rdma_entries};
use crate::hierarchy::Hierarchy;

/// One tick of cpuacct.stat in nanoseconds: user space sees 100 in a second on every architecture (`USER_HZ`).
const TICK: u64 = 10_000_000;
/// Which devices there are, by number and name.
const PARTITIONS: &str = "/proc/partitions";

/// All that is counted.
pub fn metrics(hierarchy: &Hierarchy) -> Metrics {
    let of = |controller: &str| hierarchy.controller(controller).filter(|folder| folder.exists()).map(Folder);
    Metrics {
        cpu: Some(cpu(of("cpu"), of("cpuacct"))).into(),
        memory: of("memory").and_then(memory).into(),
        memory_oom_control: of("memory").and_then(oom_control).into(),
        pids: of("pids").and_then(pids).into(),
        blkio: of("blkio").map(blkio).into(),
        rdma: of("rdma").and_then(rdma).into(),
        hugetlb: of("hugetlb").map(hugetlb).unwrap_or_default(),
        ..Metrics::default()
    }
}

fn cpu(cpu: Option<Folder<'_>>, cpuacct: Option<Folder<'_>>) -> CPUStat {
    let mut usage = CPUUsage::new();
    if let Some(folder) = cpuacct {
        usage.total = folder.number("cpuacct.usage").unwrap_or_default();
        if let Some(ticks) = folder.pairs("cpuacct.stat") {
            usage.user = ticks.get("user") * TICK;
            usage.kernel = ticks.get("system") * TICK;
        }
        let per_cpu = folder.text("cpuacct.usage_percpu").unwrap_or_default();
        usage.per_cpu = per_cpu.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    }
    let mut throttling = Throttle::new();
    if let Some(stat) = cpu.and_then(|folder| folder.pairs("cpu.stat")) {
        throttling.periods = stat.get("nr_periods");
        throttling.throttled_periods = stat.get("nr_throttled");
        throttling.throttled_time = stat.get("throttled_time");
    }
    CPUStat { usage: Some(usage).into(), throttling: Some(throttling).into(), ..CPUStat::default() }
}

fn memory(folder: Folder<'_>) -> Option<MemoryStat> {
    let stat = folder.pairs("memory.stat")?;
    let entry = |kind: &str| {
        let number = |name: &str| folder.number(&format!("memory.{kind}{name}")).unwrap_or_default();
        Some(MemoryEntry {
            limit: number("limit_in_bytes"),
            usage: number("usage_in_bytes"),
            max: number("max_usage_in_bytes"),
            failcnt: number("failcnt"),
            ..MemoryEntry::default()
        })
    };
    Some(MemoryStat {
        cache: stat.get("cache"),
        rss: stat.get("rss"),
        rss_huge: stat.get("rss_huge"),
        mapped_file: stat.get("mapped_file"),
        dirty: stat.get("dirty"),
        writeback: stat.get("writeback"),
        pg_pg_in: stat.get("pgpgin"),
        pg_pg_out: stat.get("pgpgout"),
        pg_fault: stat.get("pgfault"),
        pg_maj_fault: stat.get("pgmajfault"),
        inactive_anon: stat.get("inactive_anon"),
        active_anon: stat.get("active_anon"),
        inactive_file: stat.get("inactive_file"),
        active_file: stat.get("active_file"),
        unevictable: stat.get("unevictable"),
        hierarchical_memory_limit: stat.get("hierarchical_memory_limit"),
        hierarchical_swap_limit: stat.get("hierarchical_memsw_limit"),
        total_cache: stat.get("total_cache"),
        total_rss: stat.get("total_rss"),
        total_rss_huge: stat.get("total_rss_huge"),
        total_mapped_file: stat.get("total_mapped_file"),
        total_dirty: stat.get("total_dirty"),
        total_writeback: stat.get("total_writeback"),
        total_pg_pg_in: stat.get("total_pgpgin"),
        total_pg_pg_out: stat.get("total_pgpgout"),
        total_pg_fault: stat.get("total_pgfault"),
        total_pg_maj_fault: stat.get("total_pgmajfault"),
        total_inactive_anon: stat.get("total_inactive_anon"),
        total_active_anon: stat.get("total_active_anon"),
        total_inactive_file: stat.get("total_inactive_file"),
        total_active_file: stat.get("total_active_file"),
        total_unevictable: stat.get("total_unevictable"),
        usage: entry("").into(),
        swap: entry("memsw.").into(),
        kernel: entry("kmem.").into(),
        kernel_tcp: entry("kmem.tcp.").into(),
        ..MemoryStat::default()
    })
}

fn oom_control(folder: Folder<'_>) -> Option<MemoryOomControl> {
    let control = folder.pairs("memory.oom_control")?;
    Some(MemoryOomControl {
        oom_kill_disable: control.get("oom_kill_disable"),
        under_oom: control.get("under_oom"),
        oom_kill: control.get("oom_kill"),
        ..MemoryOomControl::default()
    })
}

fn pids(folder: Folder<'_>) -> Option<PidsStat> {
    let (current, limit) = (folder.number("pids.current")?, folder.number("pids.max")?);
    // runc's shim tells no limit as 0 on version 1.
    let limit = if limit == u64::MAX { 0 } else { limit };
    Some(PidsStat { current, limit, ..PidsStat::default() })
}

/// The scheduler's counts where it has any, or those of throttling.
fn blkio(folder: Folder<'_>) -> BlkIOStat {
    let partitions = std::fs::read_to_string(PARTITIONS).unwrap_or_default();
    let devices = devices(&partitions);
    let read = |name: &str| entries(&folder.text(&format!("blkio.{name}")).unwrap_or_default(), &devices);
    let scheduled = BlkIOStat {
        io_service_bytes_recursive: read("io_service_bytes_recursive"),
        io_serviced_recursive: read("io_serviced_recursive"),
        io_queued_recursive: read("io_queued_recursive"),
        io_service_time_recursive: read("io_service_time_recursive"),
        io_wait_time_recursive: read("io_wait_time_recursive"),
        io_merged_recursive: read("io_merged_recursive"),
        io_time_recursive: read("time_recursive"),
        sectors_recursive: read("sectors_recursive"),
        ..BlkIOStat::default()
    };
    if scheduled != BlkIOStat::default() {
        return scheduled;
    }
    BlkIOStat {
        io_service_bytes_recursive: read("throttle.io_service_bytes"),
        io_serviced_recursive: read("throttle.io_serviced"),
        ..BlkIOStat::default()
    }
}

/// Lines of `MAJOR:MINOR OPERATION NUMBER`, the operation left out where there is one only; a line `Total` at the end.
fn entries(text: &str, devices: &HashMap<(u64, u64), String>) -> Vec<BlkIOEntry> {
    let entry = |line: &str| {
        let (device, rest) = line.split_once(' ')?;
        let (major, minor) = device.split_once(':')?;
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        let (op, value) = rest.split_once(' ').unwrap_or(("", rest));
        Some(BlkIOEntry {
            op: op.to_string(),
            device: devices.get(&(major, minor)).cloned().unwrap_or_default(),
            major,
            minor,
            value: value.trim().parse().ok()?,
            ..BlkIOEntry::default()
        })
    };
    text.lines().filter_map(entry).collect()
}

/// Lines of `MAJOR MINOR BLOCKS NAME`, after two of a heading.
fn devices(partitions: &str) -> HashMap<(u64, u64), String> {
    let mut devices = HashMap::new();
    for line in partitions.lines().skip(2) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [major, minor, _, name] = words.as_slice()
            && let (Ok(major), Ok(minor)) = (major.parse(), minor.parse())
        {
            devices.entry((major, minor)).or_insert_with(|| format!("/dev/{name}"));
        }
    }
    devices
}

fn rdma(folder: Folder<'_>) -> Option<RdmaStat> {
    let read = |name: &str| {
        let entry =
            |(device, hca_handles, hca_objects)| RdmaEntry { device, hca_handles, hca_objects, ..RdmaEntry::default() };
        Some(rdma_entries(&folder.text(name)?).into_iter().map(entry).collect())
    };
    Some(RdmaStat { current: read("rdma.current")?, limit: read("rdma.max")?, ..RdmaStat::default() })
}

fn hugetlb(folder: Folder<'_>) -> Vec<HugetlbStat> {
    let stat = |pagesize: String| {
        let number = |name: &str| folder.number(&format!("hugetlb.{pagesize}.{name}"));
        Some(HugetlbStat {
            usage: number("usage_in_bytes")?,
            max: number("max_usage_in_bytes")?,
            failcnt: number("failcnt")?,
            pagesize,
            ..HugetlbStat::default()
        })
    };
    huge_page_sizes().into_iter().filter_map(stat).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_controller_tells_its_part() {
        let root = tempfile::tempdir().expect("folder");
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("make");
            std::fs::write(path, text).expect("write");
        };
        write("cpu/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 1\n");
        write("cpu/cpuacct.usage", "12345\n");
        write("cpu/cpuacct.stat", "user 5\nsystem 7\n");
        write("cpu/cpuacct.usage_percpu", "12000 345 \n");
        write("memory/memory.stat", "cache 1\nrss 2\ntotal_inactive_file 9\nhierarchical_memsw_limit 4\n");
        write("memory/memory.usage_in_bytes", "100\n");
        write("memory/memory.memsw.limit_in_bytes", "200\n");
        write("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 6\n");
        write("pids/pids.current", "3\n");
        write("pids/pids.max", "max\n");
        write("blkio/blkio.throttle.io_serviced", "8:0 Read 11\n8:0 Write 12\nTotal 23\n");
        let names = ["cpu", "cpuacct", "memory", "pids", "blkio"];
        let folder = |name: &str| root.path().join(if name == "cpuacct" { "cpu" } else { name });
        let hierarchy = Hierarchy::V1(names.iter().map(|name| ((*name).to_string(), folder(name))).collect());
        let metrics = metrics(&hierarchy);
        let usage = &metrics.cpu.usage;
        assert_eq!((usage.total, usage.user, usage.kernel), (12345, 50_000_000, 70_000_000));
        assert_eq!(usage.per_cpu, [12000, 345]);
        assert_eq!(metrics.cpu.throttling.throttled_periods, 2);
        let memory = &metrics.memory;
        assert_eq!((memory.cache, memory.rss, memory.total_inactive_file), (1, 2, 9));
        assert_eq!((memory.usage.usage, memory.swap.limit, memory.hierarchical_swap_limit), (100, 200, 4));
        assert_eq!(metrics.memory_oom_control.oom_kill, 6);
        assert_eq!((metrics.pids.current, metrics.pids.limit), (3, 0));
        let served: Vec<_> =
            metrics.blkio.io_serviced_recursive.iter().map(|entry| (entry.op.as_str(), entry.value)).collect();
        assert_eq!(served, [("Read", 11), ("Write", 12)]);
        assert!(metrics.rdma.is_none() && metrics.hugetlb.is_empty());
    }

    #[test]
    fn devices_have_the_names_of_the_machine() {
        let text = "major minor  #blocks  name\n\n   8        0  500 sda\n   8        1  400 sda1\n";
        let devices = devices(text);
        assert_eq!(devices.get(&(8, 1)).map(String::as_str), Some("/dev/sda1"));
        let entries = entries("8:1 77\n9:9 Read 1\nTotal 78\n", &devices);
        assert_eq!(entries.len(), 2);
        assert_eq!((entries[0].device.as_str(), entries[0].op.as_str(), entries[0].value), ("/dev/sda1", "", 77));
        assert_eq!(entries[1].device, "");
    }
}
