//! Whatever is killed in the middle of a save or a restore, the job goes on or is gone without a trace, and the
//! next save or restore works.

use std::thread;

use baton_nodes::Output;
use baton_tests::machine::Machine;
use baton_tests::process::Process;
use baton_tests::saving::Before;
use baton_tests::until::{until, until_equal};

/// What the job has on its card, of which two thirds are written and have to be copied, and the bytes per second that
/// make a copy take about a second each way.
const MEMORY: &str = "32M";
const SLOWLY: &str = "copy-rate=20000000";

/// A save that failed said so in one line, and did not lose the job.
fn failed_without_loss(done: &Output) {
    assert!(!done.status.success(), "{done:?}");
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    assert!(done.stderr.contains("goes on") && !done.stderr.contains("CR_LOST"), "{done:?}");
}

/// A save that may have succeeded did not lose the job.
fn not_lost(done: &Output) {
    if !done.status.success() {
        failed_without_loss(done);
    }
}

fn nothing_half_made(node: &Machine) {
    until_equal("no lease is left", &String::new(), || node.ok(&["ctr", "leases", "ls", "-q"]));
    assert_eq!(node.ok(&["ls", "/var/lib/baton/staging"]), "");
    assert!(!node.journal("job").exists());
}

#[test]
fn a_gpu_agent_that_is_killed_while_memory_is_copied_costs_one_save() {
    let node = Machine::start("killed-agent", "h100");
    node.run_job("job", &["--memory", MEMORY]);
    let before = Before::note(&node, "job");
    node.order_hardware(SLOWLY);
    let saving = node.begin(&["baton", "save", "job", &node.reference("1")]);
    node.until_journaled("job", "restore-gpu");
    let agent = node.program("baton-gpu-agent").expect("an agent");
    node.kill_at_once(agent);
    failed_without_loss(&node.end(saving));
    before.goes_on(&node);
    nothing_half_made(&node);
    node.order_hardware("copy-rate=0");
    node.save("job", &node.reference("2"));
    before.goes_on(&node);
    assert_ne!(node.program("baton-gpu-agent").expect("a new agent"), agent);
}

#[test]
fn an_engine_that_is_killed_while_criu_dumps_costs_one_save() {
    let node = Machine::start("killed-engine", "h100");
    node.run_job("job", &["--memory", "256M"]);
    let before = Before::note(&node, "job");
    let saving = node.begin(&["baton", "save", "job", &node.reference("1")]);
    node.until_journaled("job", "thaw");
    until("CRIU dumps", || node.program("criu"));
    let engine = node.engine_at("checkpoint").expect("the engine that has CRIU dump");
    node.kill_at_once(engine);
    failed_without_loss(&node.end(saving));
    assert_eq!(node.program("criu"), None);
    before.goes_on(&node);
    nothing_half_made(&node);
    node.save("job", &node.reference("2"));
    before.goes_on(&node);
}

#[test]
fn a_containerd_that_is_killed_again_and_again_during_a_save_loses_no_job() {
    let node = Machine::start("killed-containerd", "h100");
    node.run_job("job", &["--memory", MEMORY]);
    let before = Before::note(&node, "job");
    node.order_hardware(SLOWLY);
    let reference = node.reference("1");
    let done = thread::scope(|scope| {
        let saving = scope.spawn(|| node.attempt(&["baton", "save", "job", &reference]));
        node.until_journaled("job", "restore-gpu");
        while !saving.is_finished() {
            node.restart_containerd();
        }
        saving.join().expect("the save's end")
    });
    not_lost(&done);
    node.order_hardware("copy-rate=0");
    before.goes_on(&node);
    node.save("job", &node.reference("2"));
    before.goes_on(&node);
    nothing_half_made(&node);
}

/// The shim is killed: containerd ends what it had, and the id is free again.
fn kill_the_shim(node: &Machine) {
    node.kill_at_once(node.shim_of("job"));
    until("containerd has ended the task", || (node.task_state("job") == "none").then_some(()));
    node.no_trace_is_left();
    node.cards_are_free();
    node.ok(&["ctr", "container", "delete", "job"]);
}

#[test]
fn a_shim_that_is_killed_in_the_middle_of_a_save_leaves_no_trace() {
    let node = Machine::start("killed-saving", "h100");
    node.run_job("job", &["--memory", MEMORY]);
    node.order_hardware(SLOWLY);
    let saving = node.begin(&["baton", "save", "job", &node.reference("1")]);
    node.until_journaled("job", "restore-gpu");
    kill_the_shim(&node);
    let done = node.end(saving);
    assert_eq!((done.status.success(), done.stderr.lines().count()), (false, 1), "{done:?}");
    node.order_hardware("copy-rate=0");
    let again = node.run_job("job", &["--memory", MEMORY]);
    assert_eq!(again.gpu, Some(node.card().uuid));
    node.save("job", &node.reference("2"));
}

#[test]
fn a_shim_that_is_killed_in_the_middle_of_a_restore_leaves_no_trace() {
    let node = Machine::start("killed-restoring", "h100");
    let reference = &node.reference("1");
    let saved = node.run_job("job", &["--memory", MEMORY]);
    node.ok(&["baton", "save", "job", reference, "--stop"]);
    node.delete_stopped("job");
    node.ok(&["ctr", "container", "delete", "job"]);
    node.order_hardware(SLOWLY);
    let restoring = node.begin(&["ctr", "run", "-d", "--runtime", baton_tests::job::RUNTIME, reference, "job"]);
    until("its memory goes to the card", || memory_is_under_way(&node.processes()).then_some(()));
    kill_the_shim(&node);
    assert!(!node.end(restoring).status.success());
    node.order_hardware("copy-rate=0");
    node.run_detached(&[], reference, "job", &[]);
    let again = node.status("job");
    assert!(again.step >= saved.step, "{} < {}", again.step, saved.step);
    node.save("job", &node.reference("2"));
}

/// CRIU has restored the process and is gone; what follows is the copy.
fn memory_is_under_way(processes: &[Process]) -> bool {
    let runs = |what: &str| processes.iter().any(|process| process.command.starts_with(what));
    let engine = processes.iter().any(|process| process.command.contains(" restore "));
    runs("/counter") && !runs("criu") && !engine
}

#[test]
fn a_shim_that_is_killed_under_broken_settings_still_leaves_no_trace() {
    let node = Machine::start("killed-settings", "h100");
    let settings = node.ok(&["cat", "/etc/baton/config.toml"]);
    node.run_job("job", &[]);
    node.write("/etc/baton/config.toml", "[driver\nroot = ");
    kill_the_shim(&node);
    node.write("/etc/baton/config.toml", settings);
    let again = node.run_job("job", &[]);
    assert_eq!(again.gpu, Some(node.card().uuid));
}
