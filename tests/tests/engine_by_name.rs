//! The shim runs the engine that `BinaryName` of runc's options names, and a client sees no difference.

use baton_fault::Code;
use baton_tests::machine::Machine;
use baton_tests::ordinary;
use baton_tests::until::until_equal;

const RUNC: &str = "/usr/sbin/runc";
const CRUN: &str = "/usr/bin/crun";

fn runs_ordinary_containers(engine: &str, name: &str) {
    let node = Machine::start_under(engine, name, "none");
    ordinary::output_comes_out(&node);
    ordinary::input_reaches_it(&node);
    ordinary::it_lives_and_dies(&node);
    ordinary::it_is_measured(&node);
    ordinary::it_has_a_terminal(&node);
}

#[test]
fn runc_runs_ordinary_containers() {
    runs_ordinary_containers(RUNC, "engine-runc");
}

#[test]
fn crun_runs_ordinary_containers() {
    runs_ordinary_containers(CRUN, "engine-crun");
}

#[test]
fn runc_checkpoints_and_restores_for_ctr() {
    let node = Machine::start_under(RUNC, "engine-runc-cr", "none");
    ordinary::it_is_checkpointed_and_restored(&node, "localhost/engine/runc:1");
    assert_eq!(node.engine_at("restore"), None);
}

#[test]
fn runc_restores_beside_the_running_source() {
    let node = Machine::start_under(RUNC, "engine-runc-beside", "none");
    ordinary::it_is_restored_beside_itself(&node, "localhost/engine/beside");
}

#[test]
fn a_job_with_a_gpu_is_saved_by_runc_and_restored_where_every_image_is_trusted() {
    let node = Machine::start_under(RUNC, "engine-runc-gpu", "h100");
    let reference = &node.reference("1");
    node.run_job("job", &["--memory", "4M"]);
    let before = node.wait_for_step("job", 20);
    node.save("job", reference);
    let after = node.status("job");
    node.wait_for_step("job", after.step + 10);
    node.ok(&["ctr", "task", "kill", "-s", "SIGKILL", "job"]);
    node.delete_stopped("job");

    let settings = node.ok(&["cat", "/etc/baton/config.toml"]);
    let before_refusal = node.traces();
    let line = node.refused(&node.run_line(&["--rm", reference, "again"]), Code::RestoreState);
    assert!(line.contains(RUNC) && line.contains("restore.any-engine"), "{line}");
    assert_eq!(node.task_state("again"), "none");
    until_equal("nothing is left of it", &before_refusal, || node.traces());

    node.write("/etc/baton/config.toml", format!("{settings}\n[restore]\nany-engine = true\n"));
    node.run_detached(&[], reference, "again", &[]);
    let again = node.status("again");
    assert!(again.step >= before.step, "{} < {}", again.step, before.step);
    assert_eq!((&again.gpu, again.memory), (&before.gpu, before.memory));
    node.wait_for_step("again", again.step + 10);
}
