//! Start to exit of a container without GPU, of a program in a running one, and of twenty containers at once: Baton and
//! its peers, in turn.
//!
//! The clock is bash's, in the node: what entering the node takes is in no figure.

use baton_fault::{Code, Fault, Result};
use baton_nodes::Node;

use crate::contenders::Contender;
use crate::figures::{Figures, quantile};

const IMAGE: &str = "localhost/baton/counter:1";
/// Measured runs of each.
const RUNS: usize = 50;
/// Runs of each before those.
const WARM_UP: usize = 3;
/// Containers that are started at once, and how often.
const CROWD: usize = 20;
const CROWDS: usize = 5;

/// Prints `NAME MICROSECONDS` for each run of `COMMAND`, in which `$name`, `$options` and `$run` are set.
const TIMED: &str = "
    set -e
    once() { COMMAND
    }
    for run in $(seq COUNT); do
        while read -r name options; do
            began=${EPOCHREALTIME/./}
            once >/dev/null </dev/null
            echo $name $((${EPOCHREALTIME/./} - began))
        done <<< 'CONTENDERS'
    done";

/// Measures and adds the figures.
pub fn measure(node: &Node, contenders: &[Contender], figures: &mut Figures) -> Result<()> {
    println!("start to exit of a container without GPU, {RUNS} times each");
    let once = format!("ctr run --rm $options {IMAGE} start-$name-$run /bin/true");
    add(figures, "start to exit, no GPU", contenders, &in_turn(node, contenders, &once, RUNS + WARM_UP)?);
    println!("start to exit of a program in a container, {RUNS} times each");
    for Contender { name, options, .. } in contenders {
        node.ok(&["sh", "-c", &format!("ctr run -d {options} {IMAGE} idle-{name} /bin/sleep 100000")])?;
    }
    let once = "ctr task exec --exec-id exec-$run idle-$name /bin/true";
    add(figures, "exec to exit", contenders, &in_turn(node, contenders, once, RUNS + WARM_UP)?);
    for Contender { name, .. } in contenders {
        // Its shim shares memory with others, whose idle ones are measured later.
        node.ok(&["ctr", "task", "rm", "-f", &format!("idle-{name}")])?;
    }
    println!("{CROWD} containers started at once, {CROWDS} times each");
    let once = format!(
        "for each in $(seq {CROWD}); do ctr run --rm $options {IMAGE} crowd-$name-$run-$each /bin/true & done; wait"
    );
    let times = in_turn(node, contenders, &once, CROWDS + WARM_UP)?;
    figures.beside(format!("{CROWD} containers at once, start to exit of all"), "ms", &medians(contenders, &times));
    Ok(())
}

/// Milliseconds of each run, by contender.
type Times = Vec<Vec<f64>>;

fn medians(contenders: &[Contender], times: &Times) -> Vec<(&'static str, f64)> {
    part_of(contenders, times, 0.5)
}

fn part_of(contenders: &[Contender], times: &Times, part: f64) -> Vec<(&'static str, f64)> {
    contenders.iter().zip(times).map(|(contender, times)| (contender.name, quantile(times, part))).collect()
}

fn add(figures: &mut Figures, name: &str, contenders: &[Contender], times: &Times) {
    for (label, part) in [("p50", 0.5), ("p95", 0.95)] {
        figures.beside(format!("{name}, {label}"), "ms", &part_of(contenders, times, part));
    }
}

fn in_turn(node: &Node, contenders: &[Contender], command: &str, count: usize) -> Result<Times> {
    let lines: Vec<_> = contenders.iter().map(|one| format!("{} {}", one.name, one.options)).collect();
    let script =
        TIMED.replace("COUNT", &count.to_string()).replace("CONTENDERS", &lines.join("\n")).replace("COMMAND", command);
    let names: Vec<_> = contenders.iter().map(|one| one.name).collect();
    read(&node.ok(&["bash", "-c", &script])?, &names)
}

fn read(text: &str, names: &[&str]) -> Result<Times> {
    let mut times = vec![Vec::new(); names.len()];
    for line in text.lines() {
        let wrong = || Fault::new(Code::System, "read a time", format!("{line:?} is none"));
        let (name, time) = line.split_once(' ').ok_or_else(wrong)?;
        let index = names.iter().position(|known| *known == name).ok_or_else(wrong)?;
        times[index].push(time.parse::<f64>().map_err(|_| wrong())? / 1000.0);
    }
    Ok(times.into_iter().map(|mut times| times.split_off(WARM_UP.min(times.len()))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_apart_and_the_warm_up_is_left_out() {
        let mut text = "baton 900000\nrunc 800000\n".repeat(WARM_UP);
        text.push_str("baton 3000\nrunc 2500\n");
        assert_eq!(read(&text, &["baton", "runc"]), Ok(vec![vec![3.0], vec![2.5]]));
        assert!(read("crun 1\n", &["baton"]).is_err());
    }
}
