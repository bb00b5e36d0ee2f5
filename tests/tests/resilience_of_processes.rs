//! Processes of a container in unusual states: being started while it is frozen, ended by signals without a name,
//! paused when a save comes.

use baton_fault::Code;
use baton_tests::machine::Machine;
use baton_tests::saving::Before;
use baton_tests::until::until;

#[test]
fn killing_a_process_that_is_being_started_kills_nothing_else() {
    let node = Machine::start("process-starting", "h100");
    node.run_job("job", &[]);
    let before = Before::note(&node, "job");
    let shim = node.shim_of("job");
    // What is executed in a frozen container stays in its start.
    node.freeze("job");
    let running = node.begin(&["ctr", "task", "exec", "--exec-id", "late", "job", "sh", "-c", "exit 7"]);
    until("the exec is being started", || node.engine_at("exec"));
    let line = node.refused(&["ctr", "task", "kill", "--exec-id", "late", "job"], Code::State);
    assert!(line.contains("being started"), "{line}");
    node.thaw("job");
    let done = node.end(running);
    assert_eq!(done.status.code(), Some(7), "{done:?}");
    assert_eq!(node.shim_of("job"), shim);
    before.goes_on(&node);
}

#[test]
fn a_process_that_is_ended_by_a_real_time_signal_is_seen_as_ended() {
    let node = Machine::start("process-real-time", "none");
    node.run_cpu_job("job");
    // Its id can be used again at once: it was deleted.
    for (signal, status) in [("37", 128 + 37), ("64", 128 + 64), ("SIGUSR1", 128 + 10)] {
        let running = node.begin(&["ctr", "task", "exec", "--exec-id", "e1", "job", "sleep", "1000"]);
        until("it runs", || node.find_process(|command| command == "sleep 1000"));
        // Its start may not have been said yet; until then there is nothing to be killed.
        until("it is killed", || {
            let killed = node.attempt(&["ctr", "task", "kill", "--exec-id", "e1", "-s", signal, "job"]);
            killed.status.success().then_some(())
        });
        assert_eq!(node.end(running).status.code(), Some(status), "signal {signal}");
    }
    assert_eq!(node.find_process(|command| command.starts_with("sleep")), None);
    let now = node.status("job");
    node.wait_for_step("job", now.step + 5);
}

#[test]
fn a_paused_container_is_saved_and_stays_paused_until_it_is_resumed() {
    let node = Machine::start("process-paused", "h100");
    node.run_job("job", &["--memory", "4M"]);
    let before = Before::note(&node, "job");
    let reference = &node.reference("1");
    node.ok(&["ctr", "task", "pause", "job"]);
    node.ok(&["baton", "save", "job", reference]);
    assert_eq!(node.task_state("job"), "PAUSED");
    assert!(node.is_frozen("job"));
    node.ok(&["ctr", "task", "resume", "job"]);
    before.goes_on(&node);
}

#[test]
fn a_paused_container_that_is_saved_and_stopped_ends_and_goes_on_from_its_image() {
    let node = Machine::start("process-stopped", "h100");
    let status = node.run_job("job", &["--memory", "4M"]);
    let reference = &node.reference("1");
    node.ok(&["ctr", "task", "pause", "job"]);
    let said = node.ok(&["baton", "save", "job", reference, "--stop"]);
    assert!(said.contains("and stopped"), "{said}");
    let ended = node.delete_stopped("job");
    assert!(ended.contains("137"), "{ended}");
    node.ok(&["ctr", "container", "delete", "job"]);
    node.no_trace_is_left();
    node.cards_are_free();
    node.run_detached(&[], reference, "job", &[]);
    let again = node.status("job");
    assert!(again.step >= status.step, "{} < {}", again.step, status.step);
}
