//! Everything that needs no controller works on a node that sees cgroup version 2 alone. Limits and what is used there
//! are for a machine that has its controllers there: `make test-vm`.

use baton_nodes::NodeOptions;
use baton_tests::job::RUNTIME;
use baton_tests::machine::Machine;
use baton_tests::ordinary;

/// The one limit that `ctr run` asks for by itself.
const NO_LIMIT: [&str; 2] = ["--cpu-shares", "0"];

fn node(name: &str, cards: &str) -> Machine {
    let options = NodeOptions { cgroup2: true, ..NodeOptions::new(name).cards(cards) };
    Machine::with(options).under(&[&["--runtime", RUNTIME], &NO_LIMIT[..]].concat())
}

#[test]
fn containers_are_run_executed_in_paused_and_ended() {
    let node = node("cgroup2-life", "none");
    ordinary::output_comes_out(&node);
    ordinary::input_reaches_it(&node);
    ordinary::it_lives_and_dies(&node);
    ordinary::it_is_what_runc_makes_of_it(&node, &NO_LIMIT);
}

#[test]
fn a_container_is_checkpointed_and_restored() {
    ordinary::it_is_checkpointed_and_restored(&node("cgroup2-cr", "none"), "localhost/cgroup2/cpu:1");
}

#[test]
fn restored_containers_have_cgroups_of_their_own() {
    ordinary::it_is_restored_beside_itself(&node("cgroup2-beside", "none"), "localhost/cgroup2/beside");
}

/// `counter open` says what the kernel makes of a device: without a driver behind the number, ENXIO where it is let through.
fn opened(node: &Machine, id: &str, minor: &str) -> String {
    let done = node.in_container(id, &["/counter", "open", "195", minor]);
    assert!(done.status.success(), "{done:?}");
    done.stdout
}

#[test]
fn a_job_with_a_gpu_has_its_card_alone_and_is_saved_and_restored() {
    let node = node("cgroup2-gpu", "h100x2");
    let reference = &node.reference("1");
    node.run_job("job", &["--memory", "4M"]);
    let before = node.wait_for_step("job", 20);
    let [own, other] = [0, 1].map(|card| node.cards()[card].minor.to_string());
    assert!(opened(&node, "job", &own).contains("ENXIO"));
    assert!(opened(&node, "job", &other).contains("EPERM"));
    node.save("job", reference);
    let after = node.status("job");
    node.wait_for_step("job", after.step + 10);
    node.ok(&["ctr", "task", "kill", "-s", "SIGKILL", "job"]);
    node.delete_stopped("job");

    node.run_detached(&["--env", "NVIDIA_VISIBLE_DEVICES=0"], reference, "again", &[]);
    let again = node.status("again");
    assert!(again.step >= before.step, "{} < {}", again.step, before.step);
    assert_eq!((&again.gpu, again.memory), (&before.gpu, before.memory));
    assert!(opened(&node, "again", &own).contains("ENXIO"));
    assert!(opened(&node, "again", &other).contains("EPERM"));
}
