//! Save and restore of the demo's job with 1 GiB on its card. Nobody else does this, so there is no peer.

use std::fs;
use std::time::{Duration, Instant};

use baton_fault::{Code, Fault, Result};
use baton_nodes::Node;
use serde_json::Value;

use crate::contenders::Contender;
use crate::figures::{Figures, quantile};
use crate::memory::{Peak, during};

const IMAGE: &str = "localhost/baton/counter:1";
const SAVED: &str = "registry.test:5000/bench/job:1";
const RUN: [&str; 5] = ["ctr", "run", "-d", "--runtime", "io.containerd.baton.v2"];
/// Measured rounds, after one that warms up.
const ROUNDS: u32 = 5;
/// How long the job may take to answer, or to end.
const DEADLINE: Duration = Duration::from_secs(60);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(2);

/// What one save or restore took, by name: milliseconds or bytes.
type Round = Vec<(&'static str, &'static str, f64)>;

/// Measures and adds the figures.
pub fn measure(node: &Node, _: &[Contender], figures: &mut Figures) -> Result<()> {
    println!("save and restore of a job with 1 GiB on its card, {ROUNDS} times");
    node.ok(
        &[&RUN[..], &["--env", "NVIDIA_VISIBLE_DEVICES=0", IMAGE, "round-0", "/counter", "--memory", "1G"]].concat()
    )?;
    answers(node, "round-0")?;
    let mut rounds: Vec<Round> = Vec::new();
    for round in 0..=ROUNDS {
        let (mut measured, id) = (save(node, &format!("round-{round}"))?, format!("round-{}", round + 1));
        measured.extend(restore(node, &id)?);
        // The first one warms up.
        if round > 0 {
            rounds.push(measured);
        }
    }
    for (index, (name, unit, _)) in rounds.first().into_iter().flatten().enumerate() {
        let values: Vec<f64> = rounds.iter().map(|round| round[index].2).collect();
        figures.alone(*name, unit, quantile(&values, 0.5));
    }
    Ok(())
}

/// Saves the container once while it goes on, and once to stop it; the figures are those of the first.
fn save(node: &Node, id: &str) -> Result<Round> {
    let (saved, peak) = during(node.pid(), || node.ok(&["baton", "save", id, SAVED, "--json"]));
    let saved: Value = serde_json::from_str(&saved?).map_err(|err| Fault::new(Code::System, "read JSON", err))?;
    verify(node, id)?;
    node.ok(&["baton", "save", id, SAVED, "--stop"])?;
    gone(node, id)?;
    let ms = |key: &str| saved[key].as_f64().unwrap_or(f64::NAN);
    let step = |name: &str| {
        let steps = saved["steps"].as_array().into_iter().flatten();
        steps.filter(|step| step["name"] == name).filter_map(|step| step["ms"].as_f64()).sum()
    };
    let image = |key: &str| saved["image"][key].as_f64().unwrap_or(f64::NAN) / MIB;
    Ok(vec![
        ("save 1 GiB: total", "ms", ms("total_ms")),
        ("save 1 GiB: off the card", "ms", ms("held_ms")),
        ("save 1 GiB: frozen", "ms", ms("frozen_ms")),
        ("save 1 GiB: step GPU memory leaves", "ms", step("checkpoint GPU memory")),
        ("save 1 GiB: step CRIU dump", "ms", step("CRIU dump")),
        ("save 1 GiB: step GPU is given back", "ms", step("give the GPU back")),
        ("save 1 GiB: step publish the image", "ms", step("publish the image")),
        ("save 1 GiB: image, of memory", "MiB", image("bytes_pages")),
        ("save 1 GiB: image, in all", "MiB", image("bytes")),
        ("save 1 GiB: peak memory, Baton", "MiB", peak.baton as f64 / MIB),
        ("save 1 GiB: peak memory, CRIU", "MiB", peak.criu as f64 / MIB),
    ])
}

const MIB: f64 = (1 << 20) as f64;

/// Runs the image as a new container, up to its first answer.
fn restore(node: &Node, id: &str) -> Result<Round> {
    let (took, peak) = during(node.pid(), || -> Result<(Duration, Duration)> {
        let began = Instant::now();
        node.ok(&[&RUN[..], &[SAVED, id]].concat())?;
        let ran = began.elapsed();
        answers(node, id)?;
        Ok((ran, began.elapsed()))
    });
    let ((ran, answered), Peak { baton, criu }) = (took?, peak);
    verify(node, id)?;
    let [fetch, processes, gpu] = phases(node, id)?;
    Ok(vec![
        ("restore 1 GiB: ctr run to first answer", "ms", millis(answered)),
        ("restore 1 GiB: ctr run", "ms", millis(ran)),
        ("restore 1 GiB: phase fetch", "ms", fetch),
        ("restore 1 GiB: phase processes", "ms", processes),
        ("restore 1 GiB: phase GPU memory", "ms", gpu),
        ("restore 1 GiB: peak memory, Baton", "MiB", baton as f64 / MIB),
        ("restore 1 GiB: peak memory, CRIU", "MiB", criu as f64 / MIB),
    ])
}

/// As milliseconds.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Waits until the job answers a question, without a look at all of its memory.
pub fn answers(node: &Node, id: &str) -> Result<()> {
    let (end, mut number) = (Instant::now() + DEADLINE, 0);
    loop {
        let exec = format!("first{number}");
        let done = node.run(&["ctr", "task", "exec", "--exec-id", &exec, id, "/counter", "wait", "1"])?;
        if done.status.success() {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(Fault::new(Code::Deadline, format!("ask {id}"), done.stderr.trim()));
        }
        number += 1;
        std::thread::sleep(PAUSE);
    }
}

/// Lets the job look at all of its memory; it fails when a piece is damaged.
fn verify(node: &Node, id: &str) -> Result<()> {
    node.ok(&["ctr", "task", "exec", "--exec-id", "verify", id, "/counter", "status"]).map(drop)
}

/// Waits for the end of a container's program and removes the container.
pub fn gone(node: &Node, id: &str) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    while !node.ok(&["ctr", "task", "ls"])?.lines().any(|line| line.starts_with(id) && line.contains("STOPPED")) {
        if Instant::now() > end {
            return Err(Fault::new(Code::Deadline, format!("wait for the end of {id}"), "it still runs"));
        }
        std::thread::sleep(PAUSE);
    }
    // ctr passes the program's exit status on, which after a stop is not 0.
    node.run(&["ctr", "task", "rm", id])?;
    node.ok(&["ctr", "container", "rm", id]).map(drop)
}

/// Milliseconds for fetching, for the processes and for GPU memory, from the shim's line in containerd's log.
fn phases(node: &Node, id: &str) -> Result<[f64; 3]> {
    let path = node.root_path("/var/log/containerd.log");
    let log = fs::read_to_string(&path).unwrap_or_default();
    let wanted = format!("restored {id} from");
    log.lines().rev().find(|line| line.contains(&wanted)).and_then(parse).ok_or_else(|| {
        Fault::new(Code::System, format!("read the phases of the restore of {id}"), "containerd's log has none")
    })
}

/// `… fetch 15 ms, processes 98 ms, GPU memory 3 ms …`
fn parse(line: &str) -> Option<[f64; 3]> {
    let after = |label: &str| line.rsplit_once(label)?.1.split(' ').next()?.parse().ok();
    Some([after(": fetch ")?, after(", processes ")?, after(", GPU memory ")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_are_read_from_the_log() {
        let line = "level=info msg=\"restored a from r/j:1: fetch 15 ms, processes 98 ms, GPU memory 3 ms\"";
        assert_eq!(parse(line), Some([15.0, 98.0, 3.0]));
        assert_eq!(parse("restored a"), None);
    }
}
