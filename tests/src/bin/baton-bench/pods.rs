//! Pods of Kubernetes: how long one takes to be ready and to be gone, twenty at once, and what memory a pod takes beside
//! its own, under Baton and under runc's shim on one and the same node.

use std::thread;
use std::time::{Duration, Instant};

use baton_fault::Result;
use baton_kubernetes::{Cluster, ClusterOptions};
use baton_nodes::Node;

use crate::contenders::Contender;
use crate::figures::{Figures, quantile};
use crate::memory;

/// What the cluster's only node is called, and before the dash the cluster.
pub const NODE: &str = "bench-pods-1";
const CLUSTER: &str = "bench-pods";
/// The runtime classes, and the programs of their shims.
const CLASSES: [(&str, &str); 2] = [("baton", "containerd-shim-baton-v2"), ("runc", "containerd-shim-runc-v2")];
/// How often one pod is measured: often enough that one look of the kubelet sooner or later does not decide.
const ROUNDS: usize = 50;
/// How many pods come at once.
const CROWD: usize = 20;
/// Ends at once when it is told to, as a well-kept service does.
const PROGRAM: &str = "trap 'exit 0' TERM; sleep 100000 & wait";
/// Between two looks whether a shim has ended.
const LOOK: Duration = Duration::from_millis(2);
const MIB: f64 = (1 << 20) as f64;

/// What was measured of one pod after another, in milliseconds.
#[derive(Default)]
struct Times {
    ready: Vec<f64>,
    ended: Vec<f64>,
    gone: Vec<f64>,
}

/// Measures and adds the figures. Without Kubernetes' programs there are none.
pub fn measure(_: &Node, _: &[Contender], figures: &mut Figures) -> Result<()> {
    let options = ClusterOptions { nodes: 1, ..ClusterOptions::new(CLUSTER) };
    println!("pods of Kubernetes");
    let cluster = match Cluster::up(&options) {
        Err(fault) if fault.to_string().contains("integration/programs") => {
            println!("{fault}: pods are left out");
            return Ok(());
        }
        started => started?,
    };
    let measured = all(&cluster, figures);
    cluster.down()?;
    measured
}

fn all(cluster: &Cluster, figures: &mut Figures) -> Result<()> {
    let mut times = [Times::default(), Times::default()];
    for round in 0..=ROUNDS {
        // In turns, so that what else the machine does meets each alike; and each as often first, since when the kubelet
        // looks again follows from when the pod before was gone.
        let mut turns: Vec<_> = CLASSES.iter().zip(&mut times).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for ((class, shim), times) in turns {
            let up = bring(cluster, class, &[format!("{class}-{round}")])?;
            thread::sleep(phase(round));
            let began = Instant::now();
            let selected = format!("--selector=class={class}");
            cluster.ok(&["delete", "pod", &selected, "--wait=false"])?;
            while !shims(shim)?.is_empty() {
                thread::sleep(LOOK);
            }
            let end = milliseconds(began);
            cluster.ok(&["wait", "--for=delete", "--timeout=120s", "pod", &selected])?;
            // The first is not counted: caches are cold.
            if round > 0 {
                times.ready.push(up);
                times.ended.push(end);
                times.gone.push(milliseconds(began));
            }
        }
    }
    let of = |sum: &dyn Fn(&Times) -> f64| -> Vec<(&'static str, f64)> {
        CLASSES.iter().zip(&times).map(|((class, _), times)| (*class, sum(times))).collect()
    };
    figures.beside("a pod, apply to ready, p50", "ms", &of(&|times| quantile(&times.ready, 0.5)));
    figures.beside("a pod, delete to the end of its shim, p50", "ms", &of(&|times| quantile(&times.ended, 0.5)));
    // Of times spread over a second the median says little.
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    figures.beside("a pod, delete to gone, mean", "ms", &of(&|times| mean(&times.gone)));
    let (mut together, mut end, mut weight) = (Vec::new(), Vec::new(), Vec::new());
    for (class, shim) in CLASSES {
        let names: Vec<_> = (0..CROWD).map(|number| format!("{class}-of-many-{number}")).collect();
        together.push((class, bring(cluster, class, &names)?));
        let size: u64 = shims(shim)?.iter().map(|pid| memory::proportional(pid)).sum();
        weight.push((class, size as f64 / MIB / CROWD as f64));
        end.push((class, take(cluster, class)?));
    }
    figures.beside(format!("{CROWD} pods at once, apply to all ready"), "ms", &together);
    figures.beside(format!("{CROWD} pods at once, delete to all gone"), "ms", &end);
    figures.beside(format!("memory of each of {CROWD} pods beside its own, PSS"), "MiB", &weight);
    Ok(())
}

/// How long a pod is left alone before it is deleted. The kubelet looks at what has changed once a second, and lets the API
/// know that a pod is gone when it has looked: this spreads the deletions over that second. And it begins nothing with a
/// pod before it has seen it running; before that, the sooner a pod is ready, the longer its end would wait.
fn phase(round: usize) -> Duration {
    Duration::from_millis(1200 + (round * 180 % 1000) as u64)
}

/// Has pods made, and gives the milliseconds until all are ready.
fn bring(cluster: &Cluster, class: &str, names: &[String]) -> Result<f64> {
    let pod = |name: &String| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{class: {class}}}}}, \
             spec: {{runtimeClassName: {class}, containers: [{{name: c, image: 'localhost/baton/counter:1', \
             command: [sh, -c, \"{PROGRAM}\"]}}]}}}}"
        )
    };
    let manifest = names.iter().map(pod).collect::<Vec<_>>().join("\n---\n");
    let began = Instant::now();
    cluster.apply(&manifest)?;
    let selected = format!("--selector=class={class}");
    cluster.ok(&["wait", "--for=condition=Ready", "--timeout=120s", "pod", &selected])?;
    Ok(milliseconds(began))
}

/// Has all pods of a class deleted, and gives the milliseconds until they are gone.
fn take(cluster: &Cluster, class: &str) -> Result<f64> {
    let began = Instant::now();
    cluster.ok(&["delete", "pod", &format!("--selector=class={class}"), "--timeout=120s"])?;
    Ok(milliseconds(began))
}

/// The pids of all shims of that name that serve pods.
fn shims(program: &str) -> Result<Vec<String>> {
    memory::pids_of(program, "k8s.io")
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}
