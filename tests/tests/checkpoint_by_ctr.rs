//! containerd's own checkpoint and restore, as `ctr` has them: each proven by a counter that goes on from where it was.

use baton_tests::job::{IMAGE, Status};
use baton_tests::machine::Machine;
use baton_tests::ordinary;
use baton_tests::until::until;

fn checkpoint(node: &Machine, id: &str, reference: &str) {
    node.ok(&["ctr", "container", "checkpoint", "--task", "--rw", "--image", id, reference]);
}

fn restore(node: &Machine, id: &str, reference: &str) -> Status {
    node.ok(&["ctr", "container", "restore", "--live", "--rw", id, reference]);
    assert_eq!(node.task_state(id), "RUNNING");
    node.status(id)
}

/// The job has done at least the steps that it had done, and goes on.
fn goes_on(node: &Machine, id: &str, now: &Status, before: &Status) {
    assert!(now.step >= before.step, "{id} fell back from step {} to {}", before.step, now.step);
    node.wait_for_step(id, now.step + 10);
}

#[test]
fn a_container_without_gpu_is_checkpointed_and_restored_by_ctr() {
    ordinary::it_is_checkpointed_and_restored(&Machine::start("by-ctr-cpu", "none"), "localhost/by-ctr/cpu:1");
}

#[test]
fn it_is_restored_beside_the_running_source_and_twice_each_in_a_cgroup_of_its_own() {
    ordinary::it_is_restored_beside_itself(&Machine::start("by-ctr-beside", "none"), "localhost/by-ctr/beside");
}

#[test]
fn the_task_alone_is_checkpointed_into_a_flat_folder_and_stopped_when_asked_to() {
    let node = Machine::start("by-ctr-task", "none");
    node.run_cpu_job("job");
    let before = node.wait_for_step("job", 30);
    node.ok(&["ctr", "task", "checkpoint", "job"]);
    goes_on(&node, "job", &node.status("job"), &before);
    let images = node.ok(&["ctr", "image", "ls", "-q"]);
    let image = images.lines().find(|name| name.starts_with("containerd.io/checkpoint/job:")).expect("an image");
    // Its name is the second in which it was made, and there is to be another.
    node.ok(&["ctr", "image", "rm", image]);

    let before = node.status("job");
    let to = ["--image-path", "/tmp/images", "--work-path", "/tmp/work"];
    node.ok(&[&["ctr", "task", "checkpoint", "--exit"][..], &to, &["job"]].concat());
    until("the job ends", || (node.task_state("job") == "STOPPED").then_some(()));
    assert_eq!(node.ok(&["sh", "-c", "find /tmp/images -mindepth 1 ! -type f"]), "");
    let files = node.ok(&["ls", "/tmp/images", "/tmp/work"]);
    for file in ["pages-1.img", "inventory.img", "descriptors.json", "dump.log"] {
        assert!(files.lines().any(|line| line == file), "no {file} in {files}");
    }

    // The folder holds all that the engine needs.
    let bundle = "/run/containerd/io.containerd.runtime.v2.task/default/job";
    let engine = ["baton", "--root", "/tmp/engine"];
    let from = format!("restore --detach --bundle {bundle} --image-path /tmp/images again");
    // The restored program keeps the streams that it is given.
    node.ok(&["sh", "-c", &format!("{} {from} </dev/null >/dev/null 2>&1", engine.join(" "))]);
    let text = node.ok(&[&engine[..], &["exec", "again", "/counter", "status"]].concat());
    let now: Status = serde_json::from_str(&text).expect("a status");
    assert!(now.step >= before.step, "{} < {}", now.step, before.step);
    let wait = (now.step + 10).to_string();
    node.ok(&[&engine[..], &["exec", "again", "/counter", "wait", &wait]].concat());
    node.ok(&[&engine[..], &["delete", "--force", "again"]].concat());
}

#[test]
fn a_shell_on_a_terminal_goes_on_on_the_terminal_of_whoever_restores_it() {
    let node = Machine::start("by-ctr-terminal", "none");
    let reference = "localhost/by-ctr/terminal:1";
    let mut terminal = node.on_terminal(&node.run_line(&["-t", IMAGE, "job", "/bin/sh"]), 24, 80);
    terminal.type_in("number=41; echo now $((number - 1))\n");
    terminal.shows("now 40");
    checkpoint(&node, "job", reference);
    node.ok(&["ctr", "task", "kill", "-s", "SIGKILL", "job"]);
    assert_eq!(terminal.end(), Some(137));

    let restore = ["ctr", "container", "restore", "--live", "--rw", "again", reference];
    let mut terminal = node.on_terminal(&restore, 24, 80);
    terminal.type_in("echo then $((number + 1))\n");
    terminal.shows("then 42");
    terminal.type_in("exit 5\n");
    assert_eq!(terminal.end(), Some(5));
}

#[test]
fn it_goes_on_on_a_second_node_after_export_and_import_and_after_push_and_pull() {
    let here = Machine::start("by-ctr-here", "none");
    let there = Machine::start("by-ctr-there", "none");
    let reference = &here.reference("ctr");
    here.run_cpu_job("job");
    let before = here.wait_for_step("job", 30);
    checkpoint(&here, "job", reference);

    here.ok(&["ctr", "image", "export", "--skip-manifest-json", "/tmp/job.tar", reference]);
    there.write("/tmp/job.tar", std::fs::read(here.root_path("/tmp/job.tar")).expect("an archive"));
    there.ok(&["ctr", "image", "import", "--no-unpack", "/tmp/job.tar"]);
    let imported = restore(&there, "imported", reference);
    goes_on(&there, "imported", &imported, &before);

    there.ok(&["ctr", "image", "rm", "--sync", reference]);
    here.ok(&["ctr", "image", "push", reference]);
    there.ok(&["ctr", "image", "pull", reference]);
    let pulled = restore(&there, "pulled", reference);
    goes_on(&there, "pulled", &pulled, &before);
    goes_on(&here, "job", &here.status("job"), &before);
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
