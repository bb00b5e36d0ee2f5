//! Where the time of a start goes: the programs that begin and end on the way of one `ctr run --rm`, as the kernel's
//! trace events tell them. Nothing of Baton's is instrumented, so its peers are measured by the same means.

use std::fs;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use baton_nodes::Node;

use crate::contenders::Contender;
use crate::figures::{Figures, quantile};

const IMAGE: &str = "localhost/baton/counter:1";
/// Runs of each.
const RUNS: usize = 15;
const TRACING: &str = "/sys/kernel/tracing";
const EVENTS: [&str; 2] = ["events/sched/sched_process_exec", "events/sched/sched_process_exit"];

/// What lies between one event and the next.
const PHASES: [&str; 9] = [
    "client and containerd, to the shim's start",
    "shim starts, to the engine's create",
    "create",
    "answer, to the engine's start",
    "start",
    "the program runs",
    "its end is told, to the engine's delete",
    "delete",
    "shim and containerd clean up",
];

/// Measures and adds the figures.
pub fn measure(node: &Node, contenders: &[Contender], figures: &mut Figures) -> Result<()> {
    let Some(trace) = Trace::begin()? else {
        println!("no trace of a start: the kernel's trace events are not at {TRACING}");
        return Ok(());
    };
    println!("phases of a start, {RUNS} times each");
    let mut times = vec![vec![Vec::new(); PHASES.len()]; contenders.len()];
    for run in 0..RUNS {
        for (contender, times) in contenders.iter().zip(&mut times) {
            trace.clear()?;
            let line =
                format!("exec ctr run --rm {} {IMAGE} phases-{}-{run} /bin/true", contender.options, contender.name);
            node.ok(&["sh", "-c", &line])?;
            let moments = moments(&trace.read()?).ok_or_else(|| {
                Fault::new(Code::System, format!("trace a start by {}", contender.name), "an event is missing")
            })?;
            for (phase, pair) in moments.windows(2).enumerate() {
                times[phase].push((pair[1] - pair[0]) * 1000.0);
            }
        }
    }
    for (phase, label) in PHASES.iter().enumerate() {
        let medians: Vec<_> = contenders
            .iter()
            .zip(&times)
            .map(|(contender, times)| (contender.name, quantile(&times[phase], 0.5)))
            .collect();
        figures.beside(format!("  phase: {label}"), "ms", &medians);
    }
    Ok(())
}

/// A trace of our own among the kernel's.
struct Trace(PathBuf);

impl Trace {
    fn begin() -> Result<Option<Trace>> {
        if !Path::new(TRACING).join("instances").is_dir() {
            return Ok(None);
        }
        let folder = Path::new(TRACING).join("instances").join(format!("baton-bench-{}", std::process::id()));
        fs::create_dir(&folder).attempt(|| format!("make {}", folder.display()))?;
        let trace = Trace(folder);
        for event in EVENTS {
            trace.write(&format!("{event}/enable"), "1")?;
        }
        Ok(Some(trace))
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.0.join(file);
        fs::write(&path, text).attempt(|| format!("write {}", path.display()))
    }

    fn clear(&self) -> Result<()> {
        self.write("trace", "")
    }

    fn read(&self) -> Result<String> {
        let path = self.0.join("trace");
        fs::read_to_string(&path).attempt(|| format!("read {}", path.display()))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if let Err(err) = fs::remove_dir(&self.0) {
            eprintln!("remove {}: {err}", self.0.display());
        }
    }
}

/// The moments, in seconds, between which the phases lie.
fn moments(text: &str) -> Option<Vec<f64>> {
    let events: Vec<Event> = text.lines().filter_map(Event::parse).collect();
    let begins = |name: &'static [&str], after: f64| {
        events.iter().find(|event| {
            event.time >= after
                && event.program.as_ref().is_some_and(|program| name.iter().any(|name| program.ends_with(name)))
        })
    };
    let ends = |pid: u32, after: f64| {
        events.iter().find(|event| event.program.is_none() && event.pid == pid && event.time >= after)
    };
    let engine: &[&str] = &["/baton", "/runc", "/crun", "/youki"];
    let client = begins(&["/ctr"], 0.0)?;
    let shim = begins(&["shim-baton-v2", "shim-runc-v2"], client.time)?;
    let create = begins(engine, shim.time)?;
    let created = ends(create.pid, create.time)?;
    let start = begins(engine, created.time)?;
    let started = ends(start.pid, start.time)?;
    let program = begins(&["/bin/true"], start.time)?;
    let ended = ends(program.pid, program.time)?;
    let delete = begins(engine, ended.time)?;
    let deleted = ends(delete.pid, delete.time)?;
    let done = ends(client.pid, deleted.time)?;
    let after_start = started.time.min(ended.time);
    Some(vec![
        client.time,
        shim.time,
        create.time,
        created.time,
        start.time,
        after_start,
        ended.time,
        delete.time,
        deleted.time,
        done.time,
    ])
}

/// A program begins, or a process ends.
struct Event {
    time: f64,
    pid: u32,
    /// None at its end.
    program: Option<String>,
}

impl Event {
    /// `ctr-123 [000] ..... 11824.548765: sched_process_exec: filename=/usr/bin/ctr pid=123 old_pid=123`, or
    /// `… sched_process_exit: comm=ctr pid=123 prio=120 …`.
    fn parse(line: &str) -> Option<Event> {
        let (head, tail) = line.split_once(": sched_process_")?;
        let time = head.rsplit_once(' ')?.1.parse().ok()?;
        let field = |name: &str| tail.split(' ').find_map(|word| word.strip_prefix(name));
        let pid = field("pid=")?.parse().ok()?;
        let program = match tail.starts_with("exec") {
            true => Some(field("filename=")?.to_owned()),
            false => None,
        };
        Some(Event { time, pid, program })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "\
# tracer: nop
 sh-1 [000] ..... 10.000: sched_process_exec: filename=/usr/bin/ctr pid=1 old_pid=1
 c-2 [000] ..... 10.020: sched_process_exec: filename=/usr/local/bin/containerd-shim-baton-v2 pid=2 old_pid=2
 c-3 [001] ..... 10.025: sched_process_exec: filename=/usr/local/bin/baton pid=3 old_pid=3
 c-3 [001] ..... 10.035: sched_process_exit: comm=baton pid=3 prio=120 group_dead=true
 c-4 [001] ..... 10.040: sched_process_exec: filename=/usr/local/bin/baton pid=4 old_pid=4
 c-5 [001] ..... 10.041: sched_process_exec: filename=/bin/true pid=5 old_pid=5
 c-4 [001] ..... 10.042: sched_process_exit: comm=baton pid=4 prio=120 group_dead=true
 c-5 [001] ..... 10.043: sched_process_exit: comm=true pid=5 prio=120 group_dead=true
 c-6 [001] ..... 10.050: sched_process_exec: filename=/usr/local/bin/baton pid=6 old_pid=6
 c-6 [001] ..... 10.055: sched_process_exit: comm=baton pid=6 prio=120 group_dead=true
 c-1 [001] ..... 10.060: sched_process_exit: comm=ctr pid=1 prio=120 group_dead=true
";

    #[test]
    fn the_moments_of_a_start_are_found_in_the_trace() {
        let found = moments(START).expect("all events");
        assert_eq!(found, [10.0, 10.02, 10.025, 10.035, 10.04, 10.042, 10.043, 10.05, 10.055, 10.06]);
        assert_eq!(found.len(), PHASES.len() + 1);
        assert_eq!(moments("nothing"), None);
    }
}
