//! What is asked of Baton on the machines, and what must come of it.

use baton_fault::Result;
use baton_nodes::image::NAME as IMAGE;
use serde::Deserialize;

use crate::machine::Machine;

const RUN: &str = "ctr run --runtime io.containerd.baton.v2";
/// Of the job.
const MEMORY: u64 = 64 << 20;
/// How often something is looked at until it is there, a tenth of a second apart.
const LOOKS: u32 = 600;
/// Where one machine offers a checkpoint to the other.
const PORT: u16 = 9000;

/// What the job says of itself.
#[derive(Deserialize)]
struct Status {
    step: u64,
    checksum: String,
    expected: String,
}

fn demand(machine: &Machine, what: &str, holds: bool, seen: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(machine.fault(what, format!("there is {:?}", seen.trim()))) }
}

/// The job's step, once it is at that one; what it has computed is right.
fn step(machine: &mut Machine, id: &str, at_least: u64) -> Result<u64> {
    let ask = format!("ctr task exec --exec-id ask-$(cat /proc/sys/kernel/random/uuid) {id} /counter wait {at_least}");
    // Too early it does not listen, and `ctr` may lose what so short a program prints.
    let printed = machine.ok(&format!(
        "{}; test -s /run/answer; cat /run/answer",
        until(&format!("{ask} >/run/answer && test -s /run/answer"))
    ))?;
    let status: Status =
        serde_json::from_str(&printed).map_err(|err| machine.fault("ask the job", format!("{err} in {printed}")))?;
    demand(machine, "count right", status.checksum == status.expected, &printed)?;
    Ok(status.step)
}

/// A line of the shell that looks until a command succeeds.
fn until(command: &str) -> String {
    format!("n=0; until {command}; do n=$((n + 1)); [ $n -lt {LOOKS} ] || exit 9; sleep 0.1; done")
}

fn ended(machine: &mut Machine, id: &str) -> Result<()> {
    machine.ok(&format!("ctr task kill -s SIGKILL {id}"))?;
    machine.ok(&until(&format!("ctr task ls | grep '^{id} .*STOPPED'")))?;
    machine.attempt(&format!("ctr task delete {id}"))?;
    machine.ok(&format!("ctr container delete {id}")).map(drop)
}

/// A job with limits has them in its cgroup, and what it uses is told with them. It runs on.
pub fn limits(machine: &mut Machine) -> Result<()> {
    machine.ok(&format!(
        "{RUN} -d --memory-limit {MEMORY} --cpu-quota 50000 --cpu-period 100000 {IMAGE} job /counter --cpu --interval-ms 100"
    ))?;
    step(machine, "job", 5)?;
    let group = "/sys/fs/cgroup/default/job";
    let memory = machine.ok(&format!("cat {group}/memory.max"))?;
    demand(machine, "memory.max", memory.trim() == MEMORY.to_string(), &memory)?;
    let cpu = machine.ok(&format!("cat {group}/cpu.max"))?;
    demand(machine, "cpu.max", cpu.trim() == "50000 100000", &cpu)?;
    let metrics = machine.ok("ctr task metrics job")?;
    let metric = |name: &str| {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name).map(str::trim))?;
        value.parse::<u64>().ok()
    };
    demand(machine, "memory.usage_limit", metric("memory.usage_limit") == Some(MEMORY), &metrics)?;
    for name in ["memory.usage ", "pids.current", "cpu.usage_usec"] {
        demand(machine, name, metric(name).is_some_and(|value| value > 0), &metrics)?;
    }
    // GPU programs lock memory: Baton must not lower what they may.
    let locked =
        |runtime: &str| format!("ctr run --rm --runtime {runtime} {IMAGE} x /bin/sh -c 'ulimit -l; ulimit -Hl'");
    let (ours, runcs) = (machine.ok(&locked("io.containerd.baton.v2"))?, machine.ok(&locked("io.containerd.runc.v2"))?);
    demand(machine, &format!("lock as much memory as under runc, {runcs:?}"), ours == runcs, &ours)
}

/// The kernel lets a container open what its rules name, and nothing else.
pub fn devices(machine: &mut Machine) -> Result<()> {
    let open = |minor: u32| format!("{RUN} --rm --device /dev/ttyS0 {IMAGE} open /counter open 4 {minor}");
    for (minor, wanted) in [(64, "OK"), (65, "EPERM")] {
        let said = machine.ok(&open(minor))?;
        demand(machine, &format!("open device 4:{minor}, {wanted}"), said.contains(wanted), &said)?;
    }
    Ok(())
}

/// A container that takes more than it may is killed, and containerd is told why.
pub fn memory_runs_out(machine: &mut Machine) -> Result<()> {
    machine.ok("ctr events >/run/events 2>&1 & until test -e /run/events; do sleep 0.1; done")?;
    let script = "x=0123456789; while true; do x=$x$x; done";
    let (status, printed) =
        machine.attempt(&format!("{RUN} --rm --memory-limit 16777216 {IMAGE} greedy /bin/sh -c '{script}'"))?;
    demand(machine, "be killed for want of memory", status == 137, &format!("exit status {status}: {printed}"))?;
    machine.ok(&until("grep -q '/tasks/oom.*greedy' /run/events")).map(drop)
}

/// The job of the left machine is checkpointed and runs on; on the right one it goes on from there, with its limits.
pub fn goes_on_elsewhere(left: &mut Machine, right: &mut Machine) -> Result<()> {
    // Ten seconds' work: one that began anew would not be there at once.
    let before = step(left, "job", 100)?;
    let reference = "localhost/job/checkpoint:1";
    left.ok(&format!("ctr container checkpoint --task --rw --image job {reference}"))?;
    let after = step(left, "job", before + 5)?;
    left.ok(&format!("ctr image export --skip-manifest-json /tmp/checkpoint.tar {reference}"))?;
    left.ok(&format!("busybox httpd -p {PORT} -h /tmp"))?;
    let from = left.side().address();
    let sum = left.ok("sha256sum </tmp/checkpoint.tar")?;
    let fetch = format!("busybox wget -q -O /tmp/checkpoint.tar http://{from}:{PORT}/checkpoint.tar");
    // The emulated network now and then ends a connection early.
    right.ok(&until(&format!("{fetch} && test \"$(sha256sum </tmp/checkpoint.tar)\" = '{}'", sum.trim())))?;
    right.ok("ctr image import --no-unpack /tmp/checkpoint.tar")?;
    right.ok(&format!("ctr container restore --live --rw job {reference}"))?;
    let there = step(right, "job", 0)?;
    demand(right, &format!("go on from step {before}"), there >= before, &there.to_string())?;
    let limit = right.ok("cat /sys/fs/cgroup/default/job/memory.max")?;
    demand(right, "memory.max", limit.trim() == MEMORY.to_string(), &limit)?;
    for verb in ["pause", "resume"] {
        right.ok(&format!("ctr task {verb} job"))?;
    }
    step(right, "job", there + 5)?;
    step(left, "job", after + 5)?;
    ended(right, "job")?;
    ended(left, "job")
}
