//! A slow operation on one container delays nothing that is asked of another, nor the state of its own.

use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::{BIN, Machine};
use baton_tests::until::until;

/// Where the options lie that `ctr` hands on.
const FILE: &str = "/tmp/options";
/// An engine that stops at a verb for as long as there is a file of its name.
const ENGINE: &str = "#!/bin/sh
for word; do
    case $word in create|checkpoint|exec|pause|update) verb=$word; break ;; esac
done
while [ -n \"$verb\" ] && [ -e /tmp/hold-$verb ]; do
    touch /tmp/held-$verb
    sleep 0.02
done
exec BIN/baton \"$@\"
";
/// An engine that fails late: it has said why and does not end for as long as there is a file.
const LATE: &str = "#!/bin/sh
BIN/baton \"$@\"
status=$?
while [ $status -ne 0 ] && [ -e /tmp/hold-failure ]; do
    touch /tmp/held-failure
    sleep 0.02
done
exit $status
";
/// Both containers are of one pod, and so of one shim.
const POD: &str = "io.kubernetes.cri.sandbox-id=pod";

fn with_engine(name: &str, engine: &str) -> Machine {
    let node = Machine::start(name, "none");
    node.write("/tmp/engine", engine.replace("BIN", BIN));
    node.ok(&["chmod", "755", "/tmp/engine"]);
    node.write(FILE, "BinaryName = '/tmp/engine'\n");
    node
}

fn run(node: &Machine, id: &str) {
    let options = ["--runtime-config-path", FILE, "--annotation", POD];
    node.run_detached(&options, IMAGE, id, &["/counter", "--cpu"]);
}

/// While the engine stands still at `verb`, which `command` has it called with, the state of both containers is told
/// and the other one can be used.
fn nothing_waits(node: &Machine, verb: &str, command: &[&str]) {
    node.write(&format!("/tmp/hold-{verb}"), "");
    let mut child = node.begin(command);
    until("the engine stands still", || node.root_path(&format!("/tmp/held-{verb}")).exists().then_some(()));
    let shim = node.task_service("quick");
    assert!(shim.state("").is_ok());
    assert!(shim.pids().is_ok() && shim.stats().is_ok());
    if verb != "create" {
        assert!(shim.about("slow").state("").is_ok());
    }
    if verb != "exec" {
        let exec = format!("beside-{verb}");
        shim.exec(&exec, &["true"]).expect("exec");
        shim.start(&exec).expect("start");
        assert_eq!(shim.wait(&exec), Ok(0));
    }
    assert!(child.try_wait().expect("its state").is_none(), "it is no longer held: {command:?}");
    std::fs::remove_file(node.root_path(&format!("/tmp/hold-{verb}"))).expect("let go");
    let done = node.end(child);
    assert!(done.status.success(), "{}", node.tell(command, &done));
}

#[test]
fn what_is_slow_holds_up_nothing_else() {
    let node = with_engine("slow", ENGINE);
    run(&node, "quick");
    let head = ["ctr", "run", "-d", "--runtime", RUNTIME, "--runtime-config-path", FILE, "--annotation", POD];
    nothing_waits(&node, "create", &[&head[..], &[IMAGE, "slow", "/counter", "--cpu"]].concat());
    assert_eq!(node.shims(), 1, "both are of one shim");
    nothing_waits(&node, "checkpoint", &["ctr", "task", "checkpoint", "--image-path", "/tmp/images", "slow"]);
    nothing_waits(&node, "pause", &["ctr", "task", "pause", "slow"]);
    node.ok(&["ctr", "task", "resume", "slow"]);
    nothing_waits(&node, "exec", &["ctr", "task", "exec", "--exec-id", "e", "slow", "true"]);
    for id in ["quick", "slow"] {
        let now = node.first_status(id);
        node.wait_for_step(id, now.step + 5);
    }
}

#[test]
fn a_call_that_fails_beside_others_tells_its_own_reason() {
    let node = with_engine("late", LATE);
    run(&node, "job");
    node.write("/tmp/hold-failure", "");
    let failing = node.begin(&["ctr", "task", "exec", "--exec-id", "e", "job", "/no-such-program"]);
    until("the engine has failed", || node.root_path("/tmp/held-failure").exists().then_some(()));
    node.ok(&["ctr", "task", "pause", "job"]);
    node.ok(&["ctr", "task", "resume", "job"]);
    std::fs::remove_file(node.root_path("/tmp/hold-failure")).expect("let go");
    let done = node.end(failing);
    assert!(!done.status.success() && done.stderr.contains("/no-such-program"), "{done:?}");
}
