//! Stats are as complete as those of runc's shim, and limits can be changed while a container runs.

use std::collections::BTreeSet;

use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::Machine;
use baton_tests::until::until_equal;
use serde_json::Value;

/// The names of all that is told, with those of what it is part of; and what does not change by itself.
fn names(value: &Value, prefix: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| names(value, &format!("{prefix}.{name}"), into))
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, &format!("{prefix}[]"), into)),
        value if prefix.ends_with("limit") => drop(into.insert(format!("{prefix} = {value}"))),
        _ => drop(into.insert(prefix.to_owned())),
    }
}

/// What a container of that runtime tells of itself. What may be 0, and so left out, at one moment and not at another
/// is asked for until it is settled.
fn told(node: &Machine, id: &str) -> BTreeSet<String> {
    let text = node.ok(&["ctr", "task", "metrics", "--format", "json", id]);
    let mut told = BTreeSet::new();
    names(&serde_json::from_str(&text).expect("what ctr prints"), "", &mut told);
    told
}

#[test]
fn what_is_counted_is_told_as_by_runcs_shim() {
    let node = Machine::start("resources-stats", "none");
    // Enough of everything that nothing is 0: memory, page faults, and 10 ticks of the clock each in its own code and in
    // the kernel, which it reads in the 14th and 15th field of its stat file.
    let busy = "dd if=/dev/zero of=/tmp/x bs=1M count=4
        while read -r stat < /proc/$$/stat; do
            set -- ${stat#*) }
            if [ ${12} -ge 10 ] && [ ${13} -ge 10 ]; then exec sleep 1000; fi
        done";
    for (runtime, id) in [(RUNTIME, "job"), ("io.containerd.runc.v2", "runc")] {
        let run = [
            "ctr",
            "run",
            "-d",
            "--runtime",
            runtime,
            "--memory-limit",
            "100000000",
            "--cpu-quota",
            "50000",
            "--cpu-period",
            "100000",
            IMAGE,
            id,
        ];
        node.ok(&[&run[..], &["sh", "-c", busy]].concat());
    }
    for id in ["job", "runc"] {
        let sleeps = |command: &str| command == "sleep 1000";
        until_equal("it is done", &2, || node.processes().iter().filter(|process| sleeps(&process.command)).count());
        assert_eq!(node.task_state(id), "RUNNING");
    }
    // Both are at rest now; which pages the kernel counts where is its own affair.
    let volatile = |name: &&String| {
        !["dirty", "writeback", "active_", "inactive_", "mapped_file", "maj_fault", "under_oom"]
            .iter()
            .any(|word| name.contains(word))
    };
    let of = |id: &str| told(&node, id).iter().filter(volatile).cloned().collect::<BTreeSet<_>>();
    let (ours, runcs) = (of("job"), of("runc"));
    assert!(ours.iter().any(|name| name.contains("pids.current")), "{ours:?}");
    assert_eq!(ours, runcs);
    let kind = |id: &str| node.task_service(id).stats().expect("stats").type_url;
    assert_eq!(kind("job"), kind("runc"));
}

#[test]
fn stats_can_be_had_of_what_has_ended_until_it_is_deleted() {
    let node = Machine::start("resources-ended", "none");
    node.run_detached(&[], IMAGE, "job", &["true"]);
    let shim = node.task_service("job");
    assert_eq!(shim.wait(""), Ok(0));
    assert!(shim.stats().is_ok());
}

/// A number in a file of a container's cgroup.
fn cgroup_number(node: &Machine, controller: &str, file: &str) -> u64 {
    let path = node.root_path(&format!("/sys/fs/cgroup/{controller}/default/job/{file}"));
    std::fs::read_to_string(&path).expect("a file of its cgroup").trim().parse().expect("a number")
}

#[test]
fn limits_are_changed_while_it_runs_by_whatever_engine() {
    let node = Machine::start("resources-update", "none");
    if !node.root_path("/sys/fs/cgroup/memory").exists() {
        eprintln!("skipped: the machine has no memory controller of version 1");
        return;
    }
    node.write("/tmp/runc", "BinaryName = '/usr/bin/runc'\n");
    for options in [&[][..], &["--runtime-config-path", "/tmp/runc"]] {
        node.run_detached(options, IMAGE, "job", &["/counter", "--cpu"]);
        let shim = node.task_service("job");
        let resources = r#"{"memory": {"limit": 123453440, "reservation": 61440000}, "cpu": {"shares": 512, "quota": 30000,
            "period": 100000, "cpus": "0"}, "pids": {"limit": 77}}"#;
        shim.update(resources).expect("update");
        let numbers = [
            ("memory", "memory.limit_in_bytes", 123_453_440),
            ("memory", "memory.soft_limit_in_bytes", 61_440_000),
            ("cpu", "cpu.shares", 512),
            ("cpu", "cpu.cfs_quota_us", 30_000),
            ("cpuset", "cpuset.cpus", 0),
            ("pids", "pids.max", 77),
        ];
        for (controller, file, wanted) in numbers {
            assert_eq!(cgroup_number(&node, controller, file), wanted, "{file} {options:?}");
        }
        // What is not named stays.
        shim.update(r#"{"pids": {"limit": 99}}"#).expect("update");
        assert_eq!(cgroup_number(&node, "pids", "pids.max"), 99);
        assert_eq!(cgroup_number(&node, "memory", "memory.limit_in_bytes"), 123_453_440);
        let now = node.first_status("job");
        node.wait_for_step("job", now.step + 5);
        shim.kill("", 9).expect("kill");
        node.delete_stopped("job");
        node.ok(&["ctr", "container", "delete", "job"]);
    }
}
