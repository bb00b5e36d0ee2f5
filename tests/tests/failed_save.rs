//! A save that fails leaves the job running on its card, and nothing half-made (point 6).

use std::path::PathBuf;

use baton_fault::Code;
use baton_nodes::{NodeOptions, Output};
use baton_tests::job::Status;
use baton_tests::machine::Machine;
use baton_tests::said;
use baton_tests::store::Store;
use baton_tests::until::until;

/// What the job has on its card: 32 MiB, of which two thirds are written and have to be copied.
const MEMORY: &str = "32M";
/// Bytes per second: the copy takes about a second.
const SLOWLY: &str = "copy-rate=20000000";

/// The job as it was before a save that is to fail.
struct Before {
    status: Status,
    used: u64,
    store: Store,
}

impl Before {
    fn note(node: &Machine) -> Before {
        Before { status: node.status("job"), used: node.card().used, store: node.store() }
    }

    /// The job goes on as if nothing had been tried.
    fn is_unchanged(&self, node: &Machine) {
        let now = node.status("job");
        let later = node.wait_for_step("job", now.step.max(self.status.step) + 10);
        assert_eq!(later.gpu, self.status.gpu);
        assert_eq!(node.task_state("job"), "RUNNING");
        let card = node.card();
        assert_eq!(card.used, self.used, "its memory on the card");
        assert_eq!(card.users.len(), 1);
        node.store_becomes(&self.store);
    }
}

fn save(node: &Machine, reference: &str) {
    let said = node.ok(&["baton", "save", "job", reference]);
    assert!(said.contains("goes on"), "{said}");
}

fn journal(node: &Machine) -> PathBuf {
    node.root_path("/run/containerd/io.containerd.runtime.v2.task/default/job/baton-journal.jsonl")
}

/// Waits until the save is about to take GPU memory off the card.
fn until_memory_leaves(node: &Machine) {
    let path = journal(node);
    until("the GPU memory leaves the card", || {
        std::fs::read_to_string(&path).unwrap_or_default().contains("restore-gpu").then_some(())
    });
}

fn refused(done: &Output, code: Code) -> String {
    said::refusal(done, code).unwrap_or_else(|why| panic!("{why}: {done:?}"))
}

#[test]
fn a_disk_that_fills_after_the_gpu_memory_has_left_the_card_costs_the_job_nothing() {
    let node = Machine::with(NodeOptions::new("failed-full").cards("h100").disk(2 << 30));
    node.run_job("job", &["--memory", MEMORY]);
    // One that succeeds, so that all folders are there.
    save(&node, &node.reference("0"));
    let before = Before::note(&node);
    node.order_hardware(SLOWLY);
    let saving = node.begin(&["baton", "save", "job", &node.reference("1")]);
    until_memory_leaves(&node);
    node.fill_var_lib();
    let done = node.end(saving);
    let line = refused(&done, Code::NoSpace);
    assert!(line.contains("save job"), "{line}");
    let full = node.status("job");
    node.wait_for_step("job", full.step + 5);
    node.ok(&["sh", "-c", "rm /var/lib/filling*"]);
    node.order_hardware("copy-rate=0");
    before.is_unchanged(&node);
    save(&node, &node.reference("2"));
}

#[test]
fn a_disk_that_is_too_small_is_seen_before_the_job_is_touched() {
    let node = Machine::with(NodeOptions::new("failed-small").cards("h100").disk(256 << 20));
    node.run_job("job", &[]);
    let before = Before::note(&node);
    let line = node.refused(&["baton", "save", "job", &node.reference("1")], Code::NoSpace);
    assert!(line.contains("/var/lib/baton/staging") && line.contains("not touched"), "{line}");
    before.is_unchanged(&node);
}

#[test]
fn a_registry_that_does_not_answer_stops_no_job_and_the_image_stays() {
    let node = Machine::start("failed-push", "h100");
    node.run_job("job", &[]);
    let used = node.card().used;
    let reference = "registry.test:5999/push/job:1";
    let line = node.refused(&["baton", "save", "job", reference, "--push", "--stop"], Code::Registry);
    assert!(line.contains(reference), "{line}");
    let now = node.status("job");
    node.wait_for_step("job", now.step + 10);
    assert_eq!((node.task_state("job").as_str(), node.card().used), ("RUNNING", used));
    let known = node.ok(&["baton", "inspect", reference]);
    assert!(known.contains(reference), "{known}");
    assert_eq!(node.ok(&["ctr", "leases", "ls", "-q"]), "");
    assert_eq!(node.ok(&["ls", "/var/lib/baton/staging"]), "");
    save(&node, &node.reference("2"));
}

#[test]
fn a_driver_that_fails_leaves_the_job_on_its_card() {
    let node = Machine::start("failed-driver", "h100");
    node.write("/etc/baton/config.toml", "[driver]\nroot = \"/run/nvidia/driver\"\n[save]\nlock-timeout-s = 1\n");
    node.run_job("job", &["--memory", "4M"]);
    save(&node, &node.reference("0"));
    for (order, code) in [("lock-hang=1", Code::CrLockTimeout), ("fail-checkpoint=2", Code::CrDriver)] {
        let before = Before::note(&node);
        node.order_hardware(order);
        let line = node.refused(&["baton", "save", "job", &node.reference("1")], code);
        assert!(line.contains("save job"), "{line}");
        before.is_unchanged(&node);
    }
    save(&node, &node.reference("2"));
}

#[test]
fn a_job_that_is_killed_while_it_is_saved_leaves_nothing() {
    let node = Machine::start("failed-killed", "h100");
    node.run_job("job", &["--memory", MEMORY]);
    save(&node, &node.reference("0"));
    let before = node.ok(&["sh", "-c", "ctr image ls -q; ctr content ls -q; ctr snapshot ls"]);
    node.order_hardware(SLOWLY);
    let saving = node.begin(&["baton", "save", "job", &node.reference("1")]);
    until_memory_leaves(&node);
    let (_, pid) = node.task("job").expect("a task");
    node.ok(&["kill", "-9", &pid.to_string()]);
    let done = node.end(saving);
    assert!(!done.status.success(), "{done:?}");
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    until("its task is stopped", || (node.task_state("job") == "STOPPED").then_some(()));
    let ended = node.attempt(&["ctr", "task", "delete", "job"]);
    assert!(ended.stderr.contains("137"), "{ended:?}");
    let card = node.card();
    assert_eq!((card.used, card.users), (0, vec![]));
    assert_eq!(node.ok(&["ls", "/var/lib/baton/staging"]), "");
    assert_eq!(node.ok(&["ctr", "leases", "ls", "-q"]), "");
    baton_tests::until::until_equal("nothing is left in the store", &before, || {
        node.ok(&["sh", "-c", "ctr image ls -q; ctr content ls -q; ctr snapshot ls"])
    });
}
