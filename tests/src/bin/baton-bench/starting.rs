//! Start to exit of a container without GPU, and of a program in a running one: Baton against runc, in turn.
//!
//! The clock is bash's, in the node: what entering the node takes is in no figure.

use baton_fault::{Code, Fault, Result};
use baton_nodes::Node;

use crate::figures::{Figures, quantile};

const IMAGE: &str = "localhost/baton/counter:1";
const BATON: &str = "io.containerd.baton.v2";
const RUNC: &str = "io.containerd.runc.v2";
/// Measured runs of each.
const RUNS: u32 = 50;
/// Runs of each before those.
const WARM_UP: u32 = 3;

/// Prints `RUNTIME MICROSECONDS` for each run of `COMMAND`, in which `$runtime` and `$run` are set.
const TIMED: &str = "
    set -e
    for run in $(seq COUNT); do
        for runtime in RUNTIMES; do
            began=${EPOCHREALTIME/./}
            COMMAND >/dev/null
            echo $runtime $((${EPOCHREALTIME/./} - began))
        done
    done";

/// Measures and adds the figures.
pub fn measure(node: &Node, figures: &mut Figures) -> Result<()> {
    println!("start to exit of a container without GPU, {RUNS} times each");
    let once = format!("ctr run --rm --runtime $runtime {IMAGE} start-$runtime-$run /bin/true");
    add(figures, "start to exit, no GPU", &in_turn(node, &once)?);
    println!("start to exit of a program in a container, {RUNS} times each");
    for runtime in [BATON, RUNC] {
        node.ok(&[
            "ctr",
            "run",
            "-d",
            "--runtime",
            runtime,
            IMAGE,
            &format!("idle-{runtime}"),
            "/bin/sleep",
            "100000",
        ])?;
    }
    let once = "ctr task exec --exec-id exec-$run idle-$runtime /bin/true";
    add(figures, "exec to exit", &in_turn(node, once)?);
    for runtime in [BATON, RUNC] {
        node.ok(&["ctr", "task", "kill", "-s", "KILL", &format!("idle-{runtime}")])?;
    }
    Ok(())
}

/// Milliseconds of each run, of Baton and of runc.
type Times = (Vec<f64>, Vec<f64>);

fn add(figures: &mut Figures, name: &str, (baton, runc): &Times) {
    for (label, part) in [("p50", 0.5), ("p95", 0.95)] {
        figures.beside(format!("{name}, {label}"), "ms", quantile(baton, part), ("runc", quantile(runc, part)));
    }
}

fn in_turn(node: &Node, command: &str) -> Result<Times> {
    let script = TIMED
        .replace("COUNT", &(RUNS + WARM_UP).to_string())
        .replace("RUNTIMES", &format!("{BATON} {RUNC}"))
        .replace("COMMAND", command);
    read(&node.ok(&["bash", "-c", &script])?)
}

fn read(text: &str) -> Result<Times> {
    let (mut baton, mut runc) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let (runtime, time) = line.split_once(' ').unwrap_or_default();
        let time: f64 =
            time.parse().map_err(|_| Fault::new(Code::System, "read a time", format!("{line:?} is none")))?;
        if runtime == BATON { baton.push(time / 1000.0) } else { runc.push(time / 1000.0) }
    }
    Ok((baton.split_off(WARM_UP as usize), runc.split_off(WARM_UP as usize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_apart_and_the_warm_up_is_left_out() {
        let mut text = format!("{BATON} 900000\n{RUNC} 800000\n").repeat(WARM_UP as usize);
        text.push_str(&format!("{BATON} 3000\n{RUNC} 2500\n"));
        assert_eq!(read(&text), Ok((vec![3.0], vec![2.5])));
    }
}
