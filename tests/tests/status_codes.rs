//! The code with which a call is refused is what containerd's clients act on: each is that of runc's shim, and where
//! that one has none, the fitting one.

use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::Machine;
use baton_tests::task_service::{Outcome, TaskService, any};
use containerd_shim_protos::ttrpc::Code;

/// What each call of one and the same walk through a container's life came to: `OK`, or the code of the refusal.
fn walk(shim: &TaskService) -> Vec<(&'static str, Code)> {
    let mut seen = Vec::new();
    let mut note = |call, outcome: Outcome<()>| seen.push((call, outcome.err().unwrap_or(Code::OK)));
    let nobody = shim.about("nosuch");
    note("state of no container", nobody.state("").map(drop));
    note("start of no container", nobody.start("").map(drop));
    note("kill of no container", nobody.kill("", 9));
    note("delete of no container", nobody.delete("").map(drop));
    note("wait for no container", nobody.wait("").map(drop));
    note("state of no exec", shim.state("nosuch").map(drop));
    note("kill of no exec", shim.kill("nosuch", 9));

    note("second start", shim.start("").map(drop));
    note("delete while it runs", shim.delete("").map(drop));
    note("resume while it runs", shim.resume());
    note("exec", shim.exec("e", &["sleep", "1000"]));
    note("second exec of that name", shim.exec("e", &["sleep", "1000"]));
    note("kill of an exec that was not started", shim.kill("e", 9));
    note("start of an exec", shim.start("e").map(drop));
    note("delete of an exec while it runs", shim.delete("e").map(drop));
    note("kill of an exec", shim.kill("e", 9));
    assert_eq!(shim.wait("e"), Ok(137));
    note("kill of an exec that has ended", shim.kill("e", 9));
    assert_eq!(shim.delete("e"), Ok(137));
    note("second delete of an exec", shim.delete("e").map(drop));

    note("pause", shim.pause());
    note("second pause", shim.pause());
    note("exec while it is paused", shim.exec("p", &["true"]));
    note("kill while it is paused", shim.kill("", 9));
    assert_eq!(shim.wait(""), Ok(137));
    note("kill of what has ended", shim.kill("", 9));
    note("exec in what has ended", shim.exec("late", &["true"]));
    note("pause of what has ended", shim.pause());
    note("update of what has ended", shim.update("{}"));
    note("start of what has ended", shim.start("").map(drop));
    assert_eq!(shim.delete(""), Ok(137));
    note("second delete", shim.delete("").map(drop));
    seen
}

#[test]
fn each_refusal_has_the_code_of_runcs_shim_or_says_that_the_state_is_wrong() {
    let node = Machine::start("codes", "none");
    node.run_detached(&[], IMAGE, "job", &["/counter", "--cpu"]);
    node.ok(&["ctr", "run", "-d", "--runtime", "io.containerd.runc.v2", IMAGE, "runc", "/counter", "--cpu"]);
    let shim = node.task_service("job");
    // Not part of the walk, as it is the end of runc's shim (2.1.9: `makechan: size out of range` at the init's end).
    shim.exec("twice", &["sleep", "1000"]).expect("exec");
    shim.start("twice").expect("start");
    assert_eq!(shim.start("twice"), Err(Code::FAILED_PRECONDITION));
    let (ours, runcs) = (walk(&shim), walk(&node.task_service("runc")));
    let wanted = |call: &str, runcs: Code| match runcs {
        // Where runc's shim has no code, the reason is the state that the container is in.
        Code::UNKNOWN => Code::FAILED_PRECONDITION,
        code => {
            assert!(
                [Code::OK, Code::NOT_FOUND, Code::ALREADY_EXISTS, Code::FAILED_PRECONDITION].contains(&code),
                "{call}"
            );
            code
        }
    };
    let wanted: Vec<_> = runcs.into_iter().map(|(call, code)| (call, wanted(call, code))).collect();
    assert_eq!(ours, wanted);
}

#[test]
fn bad_input_is_refused_by_its_code_and_nothing_is_made() {
    let node = Machine::start("codes-input", "none");
    node.run_detached(&[], IMAGE, "job", &["/counter", "--cpu"]);
    let shim = node.task_service("job");
    let other = shim.about("other");
    let bundles = "/run/containerd/io.containerd.runtime.v2.task/default";
    node.ok(&["ctr", "container", "create", "--runtime", RUNTIME, IMAGE, "other", "true"]);
    node.ok(&["sh", "-c", "mkdir -p /tmp/b/rootfs /tmp/bad; echo '{' > /tmp/bad/config.json"]);
    node.ok(&["cp", &format!("{bundles}/job/config.json"), "/tmp/b/"]);
    let traces = node.traces();
    assert_eq!(shim.create("/tmp/b", None), Err(Code::ALREADY_EXISTS));
    assert_eq!(other.create("/tmp/bad", None), Err(Code::INVALID_ARGUMENT));
    assert_eq!(other.create("/tmp/nowhere", None), Err(Code::FAILED_PRECONDITION));
    assert_eq!(other.create("/tmp/b", Some(any("some.Options", "x"))), Err(Code::INVALID_ARGUMENT));
    // runc's options with 6, the name of the engine.
    let missing = any("containerd.runc.v1.Options", &b"\x32\x08/nowhere"[..]);
    assert_eq!(other.create("/tmp/b", Some(missing)), Err(Code::UNAVAILABLE));
    assert_eq!(shim.update("[]"), Err(Code::INVALID_ARGUMENT));
    assert_eq!(shim.update("{"), Err(Code::INVALID_ARGUMENT));
    assert_eq!(shim.about("no-record").create("/tmp/b", None), Err(Code::NOT_FOUND));
    assert_eq!(shim.exec("../e", &["true"]), Err(Code::INVALID_ARGUMENT));
    assert_eq!(other.state("").map(drop), Err(Code::NOT_FOUND));
    assert_eq!(node.traces(), traces);
    let now = node.first_status("job");
    node.wait_for_step("job", now.step + 5);
}

#[test]
fn executed_processes_are_listed_by_their_names() {
    let node = Machine::start("codes-pids", "none");
    node.ok(&["ctr", "run", "-d", "--runtime", RUNTIME, IMAGE, "job", "/counter", "--cpu"]);
    let shim = node.task_service("job");
    shim.exec("looks", &["sleep", "1000"]).expect("exec");
    let exec = shim.start("looks").expect("start");
    let init = shim.state("").expect("state").pid;
    let mut pids = shim.pids().expect("pids");
    pids.sort_by_key(|(pid, _)| *pid);
    // ProcessDetails with 1, the name.
    let details = any("containerd.runc.v1.ProcessDetails", &b"\x0a\x05looks"[..]);
    assert_eq!(pids, [(init, None), (exec, Some(details))]);
}
