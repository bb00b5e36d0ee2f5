//! cgroup version 2: one folder for all controllers.

use std::path::Path;

use containerd_shim_protos::cgroups_v2::metrics::{
    CPUStat, HugeTlbStat, IOEntry, IOStat, MemoryEvents, MemoryStat, Metrics, PSIData, PSIStats, PidsStat, RdmaEntry,
    RdmaStat,
};

use super::{Folder, huge_page_sizes, rdma_entries};

/// All that is counted.
pub fn metrics(folder: &Path) -> Metrics {
    let folder = Folder(folder);
    let number = |name: &str| folder.number(name).unwrap_or_default();
    Metrics {
        pids: Some(PidsStat { current: number("pids.current"), limit: number("pids.max"), ..PidsStat::default() })
            .into(),
        cpu: Some(cpu(folder)).into(),
        memory: Some(memory(folder)).into(),
        memory_events: memory_events(folder).into(),
        io: Some(IOStat { usage: io(folder), psi: pressure(folder, "io.pressure").into(), ..IOStat::default() }).into(),
        rdma: Some(RdmaStat {
            current: rdma(folder, "rdma.current"),
            limit: rdma(folder, "rdma.max"),
            ..RdmaStat::default()
        })
        .into(),
        hugetlb: hugetlb(folder),
        ..Metrics::default()
    }
}

fn cpu(folder: Folder<'_>) -> CPUStat {
    let Some(stat) = folder.pairs("cpu.stat") else { return CPUStat::default() };
    CPUStat {
        usage_usec: stat.get("usage_usec"),
        user_usec: stat.get("user_usec"),
        system_usec: stat.get("system_usec"),
        nr_periods: stat.get("nr_periods"),
        nr_throttled: stat.get("nr_throttled"),
        throttled_usec: stat.get("throttled_usec"),
        nr_bursts: stat.get("nr_bursts"),
        burst_usec: stat.get("burst_usec"),
        psi: pressure(folder, "cpu.pressure").into(),
        ..CPUStat::default()
    }
}

fn memory(folder: Folder<'_>) -> MemoryStat {
    let Some(stat) = folder.pairs("memory.stat") else { return MemoryStat::default() };
    let number = |name: &str| folder.number(name).unwrap_or_default();
    MemoryStat {
        anon: stat.get("anon"),
        file: stat.get("file"),
        kernel_stack: stat.get("kernel_stack"),
        slab: stat.get("slab"),
        sock: stat.get("sock"),
        shmem: stat.get("shmem"),
        file_mapped: stat.get("file_mapped"),
        file_dirty: stat.get("file_dirty"),
        file_writeback: stat.get("file_writeback"),
        anon_thp: stat.get("anon_thp"),
        inactive_anon: stat.get("inactive_anon"),
        active_anon: stat.get("active_anon"),
        inactive_file: stat.get("inactive_file"),
        active_file: stat.get("active_file"),
        unevictable: stat.get("unevictable"),
        slab_reclaimable: stat.get("slab_reclaimable"),
        slab_unreclaimable: stat.get("slab_unreclaimable"),
        pgfault: stat.get("pgfault"),
        pgmajfault: stat.get("pgmajfault"),
        workingset_refault: stat.get("workingset_refault"),
        workingset_activate: stat.get("workingset_activate"),
        workingset_nodereclaim: stat.get("workingset_nodereclaim"),
        pgrefill: stat.get("pgrefill"),
        pgscan: stat.get("pgscan"),
        pgsteal: stat.get("pgsteal"),
        pgactivate: stat.get("pgactivate"),
        pgdeactivate: stat.get("pgdeactivate"),
        pglazyfree: stat.get("pglazyfree"),
        pglazyfreed: stat.get("pglazyfreed"),
        thp_fault_alloc: stat.get("thp_fault_alloc"),
        thp_collapse_alloc: stat.get("thp_collapse_alloc"),
        usage: number("memory.current"),
        usage_limit: number("memory.max"),
        max_usage: number("memory.peak"),
        swap_usage: number("memory.swap.current"),
        swap_limit: number("memory.swap.max"),
        swap_max_usage: number("memory.swap.peak"),
        psi: pressure(folder, "memory.pressure").into(),
        ..MemoryStat::default()
    }
}

fn memory_events(folder: Folder<'_>) -> Option<MemoryEvents> {
    let events = folder.pairs("memory.events")?;
    Some(MemoryEvents {
        low: events.get("low"),
        high: events.get("high"),
        max: events.get("max"),
        oom: events.get("oom"),
        oom_kill: events.get("oom_kill"),
        oom_group_kill: events.get("oom_group_kill"),
        ..MemoryEvents::default()
    })
}

/// Lines of `MAJOR:MINOR rbytes=N wbytes=N rios=N wios=N …`.
fn io(folder: Folder<'_>) -> Vec<IOEntry> {
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let (major, minor) = words.next()?.split_once(':')?;
        let mut entry = IOEntry { major: major.parse().ok()?, minor: minor.parse().ok()?, ..IOEntry::default() };
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            let slot = match name {
                "rbytes" => &mut entry.rbytes,
                "wbytes" => &mut entry.wbytes,
                "rios" => &mut entry.rios,
                "wios" => &mut entry.wios,
                _ => continue,
            };
            *slot = value.parse().unwrap_or_default();
        }
        Some(entry)
    };
    folder.text("io.stat").unwrap_or_default().lines().filter_map(entry).collect()
}

/// Lines of `some|full avg10=N avg60=N avg300=N total=N`; none on a kernel that does not count it.
fn pressure(folder: Folder<'_>, name: &str) -> Option<PSIStats> {
    let text = folder.text(name)?;
    let data = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        let value = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let average = |name: &str| value(name).and_then(|text| text.parse().ok()).unwrap_or_default();
        Some(PSIData {
            avg10: average("avg10"),
            avg60: average("avg60"),
            avg300: average("avg300"),
            total: value("total").and_then(|text| text.parse().ok()).unwrap_or_default(),
            ..PSIData::default()
        })
    };
    let (some, full) = (data("some "), data("full "));
    (some.is_some() || full.is_some()).then(|| PSIStats { some: some.into(), full: full.into(), ..PSIStats::default() })
}

fn rdma(folder: Folder<'_>, name: &str) -> Vec<RdmaEntry> {
    let entry =
        |(device, hca_handles, hca_objects)| RdmaEntry { device, hca_handles, hca_objects, ..RdmaEntry::default() };
    rdma_entries(&folder.text(name).unwrap_or_default()).into_iter().map(entry).collect()
}

fn hugetlb(folder: Folder<'_>) -> Vec<HugeTlbStat> {
    let stat = |pagesize: String| {
        let number = |name: &str| folder.number(&format!("hugetlb.{pagesize}.{name}")).unwrap_or_default();
        HugeTlbStat {
            current: number("current"),
            max: number("max"),
            failcnt: folder.pairs(&format!("hugetlb.{pagesize}.events")).map_or(0, |events| events.get("max")),
            pagesize: pagesize.clone(),
            ..HugeTlbStat::default()
        }
    };
    huge_page_sizes().into_iter().map(stat).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_tells_its_part() {
        let folder = tempfile::tempdir().expect("folder");
        for (name, text) in [
            ("pids.current", "3\n"),
            ("pids.max", "max\n"),
            ("cpu.stat", "usage_usec 10\nuser_usec 6\nsystem_usec 4\nnr_throttled 2\n"),
            (
                "cpu.pressure",
                "some avg10=1.50 avg60=0.00 avg300=0.25 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
            ),
            ("memory.stat", "anon 1\nfile 2\ninactive_file 9\n"),
            ("memory.current", "100\n"),
            ("memory.max", "max\n"),
            ("memory.swap.max", "0\n"),
            ("memory.events", "low 0\noom 1\noom_kill 2\n"),
            ("io.stat", "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n"),
        ] {
            std::fs::write(folder.path().join(name), text).expect("write");
        }
        let metrics = metrics(folder.path());
        assert_eq!((metrics.pids.current, metrics.pids.limit), (3, u64::MAX));
        assert_eq!((metrics.cpu.usage_usec, metrics.cpu.nr_throttled), (10, 2));
        assert_eq!((metrics.cpu.psi.some.avg10, metrics.cpu.psi.some.total, metrics.cpu.psi.full.total), (1.5, 77, 5));
        let memory = &metrics.memory;
        assert_eq!((memory.anon, memory.inactive_file, memory.usage), (1, 9, 100));
        assert_eq!((memory.usage_limit, memory.swap_limit), (u64::MAX, 0));
        assert!(memory.psi.is_none());
        assert_eq!(metrics.memory_events.oom_kill, 2);
        let io = &metrics.io.usage;
        assert_eq!((io.len(), io[0].rbytes, io[0].wios), (1, 1, 4));
    }
}
