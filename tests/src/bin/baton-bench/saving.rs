//! Checkpoint and restore of a process without GPU, by `ctr`: Baton, and runc by its own shim.

use std::time::{Duration, Instant};

use baton_fault::Result;
use baton_nodes::Node;

use crate::contenders::Contender;
use crate::figures::{Figures, quantile};
use crate::restoring::{answers, gone, millis};

const IMAGE: &str = "localhost/baton/counter:1";
/// Measured rounds of each, after one that warms up.
const ROUNDS: usize = 5;
/// crun does not restore behind runc's shim, and libcontainer's own program not at all.
const ABLE: [&str; 2] = ["baton", "runc"];
/// What is timed.
const STEPS: [&str; 3] = ["ctr task checkpoint", "ctr container checkpoint", "ctr container restore"];

/// Measures and adds the figures.
pub fn measure(node: &Node, contenders: &[Contender], figures: &mut Figures) -> Result<()> {
    let able: Vec<_> = contenders.iter().filter(|one| ABLE.contains(&one.name)).collect();
    for (size, label) in [("64M", "64 MiB"), ("1G", "1 GiB")] {
        println!("checkpoint and restore of a process of {label} without GPU, {ROUNDS} times each");
        let mut times = vec![[const { Vec::new() }; STEPS.len()]; able.len()];
        for round in 0..=ROUNDS {
            for (contender, times) in able.iter().zip(&mut times) {
                let took = once(node, contender, size, &format!("{}-{round}", contender.name))?;
                // The first one warms up.
                for (times, took) in times.iter_mut().zip(took).filter(|_| round > 0) {
                    times.push(millis(took));
                }
            }
        }
        for (index, step) in STEPS.iter().enumerate() {
            let medians: Vec<_> =
                able.iter().zip(&times).map(|(one, times)| (one.name, quantile(&times[index], 0.5))).collect();
            figures.beside(format!("{step}, {label}"), "ms", &medians);
        }
    }
    Ok(())
}

fn once(node: &Node, contender: &Contender, size: &str, id: &str) -> Result<[Duration; STEPS.len()]> {
    let timed = |command: String| {
        let began = Instant::now();
        node.ok(&["sh", "-c", &command]).map(|_| began.elapsed())
    };
    let (folder, reference, again) =
        (format!("/var/tmp/{id}"), format!("localhost/bench/{id}:1"), format!("{id}-again"));
    timed(format!("mkdir -p {folder}; ctr run -d {} {IMAGE} {id} /counter --cpu --memory {size}", contender.options))?;
    answers(node, id)?;
    let folder_takes = timed(format!("ctr task checkpoint --image-path {folder} {id}"))?;
    timed(format!("rm -r {folder}"))?;
    let image_takes = timed(format!("ctr container checkpoint --task --image {id} {reference}"))?;
    timed(format!("ctr task kill -s KILL {id}"))?;
    gone(node, id)?;
    let restore_takes = timed(format!("ctr container restore --live {again} {reference}"))?;
    answers(node, &again)?;
    timed(format!("ctr task kill -s KILL {again}"))?;
    gone(node, &again)?;
    timed(format!("ctr image rm {reference} >/dev/null"))?;
    Ok([folder_takes, image_takes, restore_takes])
}
