//! Create with the path of a checkpoint starts nothing: only Start restores it, and before that it is deleted or killed
//! without a trace.

use baton_tests::job::{IMAGE, RUNTIME, Status};
use baton_tests::machine::Machine;
use baton_tests::task_service::TaskService;
use baton_tests::until::until;
use containerd_shim_protos::api;
use containerd_shim_protos::ttrpc::Code;

const IMAGES: &str = "/tmp/images";
const BUNDLE: &str = "/tmp/b";

/// Processes, cgroups and states of the engine that there are for `again`.
fn traces(node: &Machine) -> String {
    let script = "pgrep -x counter | grep -vxF \"$0\"; find /sys/fs/cgroup -type d -path '*default/again*'; \
        ls -d /run/baton/engine/default/again 2>/dev/null; true";
    let (_, pid) = node.task("job").expect("the source");
    node.ok(&["sh", "-c", script, &pid.to_string()])
}

fn status_of(again: &TaskService) -> api::Status {
    again.state("").expect("its state").status.enum_value_or_default()
}

/// Its counter, asked past containerd, which knows nothing of this task.
fn count(node: &Machine) -> Status {
    let engine = ["baton", "--root", "/run/baton/engine/default", "exec", "again", "/counter", "status"];
    until("it answers", || {
        let done = node.attempt(&engine);
        done.status.success().then(|| Status::checked(&done.stdout))
    })
}

#[test]
fn nothing_runs_before_start_and_nothing_is_left_of_what_was_never_started() {
    let node = Machine::start("create-checkpoint", "none");
    node.run_cpu_job("job");
    let before = node.wait_for_step("job", 10);
    node.ok(&["ctr", "task", "checkpoint", "--image-path", IMAGES, "job"]);
    node.ok(&["ctr", "container", "create", "--runtime", RUNTIME, IMAGE, "again", "/counter", "--cpu"]);
    node.bundle(BUNDLE, &["true"], |_| {});
    let config = "/run/containerd/io.containerd.runtime.v2.task/default/job/config.json";
    let config = std::fs::read_to_string(node.root_path(config)).expect("a config");
    let create = || {
        node.write(&format!("{BUNDLE}/config.json"), config.replace("/default/job", "/default/again"));
        let again = node.task_service("job").about("again");
        assert_eq!(again.create_from(BUNDLE, IMAGES), Ok(0), "there is no process yet");
        assert_eq!(status_of(&again), api::Status::CREATED);
        assert_eq!(traces(&node), "");
        again
    };

    let again = create();
    assert_eq!(again.pids(), Ok(vec![]));
    assert_eq!(again.delete(""), Ok(0));
    assert_eq!(again.state("").err(), Some(Code::NOT_FOUND));
    assert_eq!(traces(&node), "");

    let again = create();
    again.kill("", 0).expect("a question");
    assert_eq!(status_of(&again), api::Status::CREATED);
    again.kill("", 9).expect("kill");
    assert_eq!((again.wait(""), status_of(&again)), (Ok(137), api::Status::STOPPED));
    assert_eq!(again.start(""), Err(Code::FAILED_PRECONDITION));
    assert_eq!((again.delete(""), traces(&node).as_str()), (Ok(137), ""));

    let again = create();
    let pid = again.start("").expect("start");
    assert_eq!((status_of(&again), again.state("").expect("its state").pid), (api::Status::RUNNING, pid));
    assert!(traces(&node).contains(&pid.to_string()));
    assert!(count(&node).step >= before.step);
    again.kill("", 9).expect("kill");
    assert_eq!((again.wait(""), again.delete("")), (Ok(137), Ok(137)));
    assert_eq!(traces(&node), "");
}
