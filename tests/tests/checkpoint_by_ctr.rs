//! containerd's own checkpoint and restore, as `ctr` has them.

use baton_tests::machine::Machine;
use baton_tests::ordinary;

fn checkpoint(node: &Machine, id: &str, reference: &str) {
    node.ok(&["ctr", "container", "checkpoint", "--task", "--rw", "--image", id, reference]);
}

#[test]
fn a_container_without_gpu_is_checkpointed_and_restored_by_ctr() {
    ordinary::it_is_checkpointed_and_restored(&Machine::start("by-ctr-cpu", "none"), "localhost/by-ctr/cpu:1");
}

#[test]
fn a_container_with_a_gpu_goes_on_on_its_card_after_a_checkpoint_by_ctr() {
    let node = Machine::start("by-ctr-gpu", "h100");
    let before = node.run_job("job", &["--memory", "4M"]);
    let used = node.card().used;
    checkpoint(&node, "job", "localhost/by-ctr/gpu:1");
    assert_eq!(node.task_state("job"), "RUNNING");
    let after = node.status("job");
    let later = node.wait_for_step("job", after.step.max(before.step) + 10);
    assert_eq!(later.gpu, before.gpu);
    assert_eq!(node.card().used, used);
    node.ok(&["baton", "save", "job", &node.reference("2")]);
}
