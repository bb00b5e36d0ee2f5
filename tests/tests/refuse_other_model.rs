//! A checkpoint is refused where it cannot go on, before anything large is read, and is as good as before (point 5).

use std::fs;

use baton_fault::Code;
use baton_tests::image::{PAGES, STATE};
use baton_tests::machine::{BIN, DRIVER_ROOT, Machine};
use baton_tests::until::until;

#[test]
fn another_model_is_refused_before_any_large_blob_is_read() {
    let (a, b) = (Machine::start("refuse-a", "h100"), Machine::start("refuse-b", "h100"));
    let c = Machine::start("refuse-c", "a100-40");
    let reference = &a.reference("1");
    let saved = a.run_job("job", &["--memory", "4M"]);
    a.ok(&["baton", "save", "job", reference, "--push", "--stop"]);
    c.ok(&["ctr", "image", "pull", reference]);
    let run = ["ctr", "run", "--rm", "--runtime", "io.containerd.baton.v2", reference, "job"];

    let line = c.refused(&run, Code::RestoreModel);
    for told in ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "restore it on a node with", reference.as_str()] {
        assert!(line.contains(told), "{told} is not in {line}");
    }
    // Whoever had to read these would now say so.
    let large: Vec<String> = [PAGES, STATE].iter().flat_map(|kind| c.blobs(reference, kind)).collect();
    assert!(large.len() >= 2, "{large:?}");
    for digest in &large {
        fs::remove_file(c.blob_file(digest)).expect("a blob to remove");
    }
    assert_eq!(c.refused(&run, Code::RestoreModel), line);
    assert!(c.task("job").is_none());
    assert_eq!(c.card().used, 0);
    assert_eq!(c.attempt(&["pgrep", "-f", "^/.*containerd-shim-baton-v2"]).stdout, "");
    assert_eq!(c.ok(&["ctr", "leases", "ls", "-q"]), "");

    b.ok(&["ctr", "image", "pull", reference]);
    b.run_detached(&[], reference, "job", &[]);
    let there = b.status("job");
    assert!(there.step >= saved.step);
    assert_eq!(there.gpu, Some(b.card().uuid));
}

/// Takes the node's cards to another version of the driver.
fn change_driver(node: &Machine, cards: &str, version: &str) {
    let program = format!("{BIN}/baton-sim-card");
    node.ok(&["sh", "-c", "kill $(pgrep -x baton-sim-card)"]);
    let seed = node.name().to_owned();
    node.ok(&[
        &program,
        "install",
        "--root",
        DRIVER_ROOT,
        "--libs",
        BIN,
        "--cards",
        cards,
        "--seed",
        &seed,
        "--driver",
        version,
    ]);
    node.ok(&["sh", "-c", &format!("setsid {program} serve --root {DRIVER_ROOT} >/dev/null 2>&1 </dev/null &")]);
    until("the new driver answers", || node.attempt(&["baton", "devices"]).status.success().then_some(()));
}

#[test]
fn another_driver_version_is_refused() {
    let (a, b) = (Machine::start("refuse-driver-a", "h100"), Machine::start("refuse-driver-b", "h100"));
    let reference = &a.reference("1");
    a.run_job("job", &[]);
    a.ok(&["baton", "save", "job", reference, "--push", "--stop"]);
    change_driver(&b, "h100", "575.57.08");
    b.ok(&["ctr", "image", "pull", reference]);
    let line = b
        .refused(&["ctr", "run", "--rm", "--runtime", "io.containerd.baton.v2", reference, "job"], Code::RestoreDriver);
    assert!(line.contains("580.95.05") && line.contains("575.57.08"), "{line}");
    assert_eq!(b.card().used, 0);
}

#[test]
fn a_node_without_a_card_refuses() {
    let (a, b) = (Machine::start("refuse-none-a", "h100"), Machine::start("refuse-none-b", "none"));
    let reference = &a.reference("1");
    a.run_job("job", &[]);
    a.ok(&["baton", "save", "job", reference, "--push", "--stop"]);
    b.ok(&["ctr", "image", "pull", reference]);
    let run = ["ctr", "run", "--rm", "--runtime", "io.containerd.baton.v2", reference, "job"];
    let line = b.refused(&run, Code::RestoreModel);
    assert!(line.contains("NVIDIA H100 80GB HBM3") && line.contains("no GPU"), "{line}");
}
