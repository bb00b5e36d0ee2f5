//! The shim as a program: what it tells of itself, and what it does for containerd when a shim has gone.

use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::{BIN, Machine};
use baton_tests::until::until;

/// Where the options lie that `ctr` hands on.
const FILE: &str = "/tmp/options";
const BUNDLES: &str = "/run/containerd/io.containerd.runtime.v2.task/default";

#[test]
fn it_tells_its_version_and_what_its_engine_can_do() {
    let node = Machine::start("program-info", "none");
    let shim = format!("{BIN}/containerd-shim-baton-v2");
    assert!(node.ok(&[&shim, "-v"]).starts_with("containerd-shim-baton-v2:\n  Version:  0."));
    let info = node.ok(&["ctr", "plugins", "inspect-runtime", "--runtime", RUNTIME]);
    let info: serde_json::Value = serde_json::from_str(&info).expect("what ctr prints");
    assert_eq!(info["Name"], RUNTIME);
    node.write(FILE, "BinaryName = 'runc'\n");
    let info = node.ok(&["ctr", "plugins", "inspect-runtime", "--runtime", RUNTIME, "--runtime-config-path", FILE]);
    let runc = node.ok(&["ctr", "plugins", "inspect-runtime", "--runtime", "io.containerd.runc.v2"]);
    let features = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON")["Features"].clone();
    assert!(features(&runc).is_object(), "{runc}");
    assert_eq!(features(&info), features(&runc));
}

/// `delete`, as containerd calls it.
fn delete(node: &Machine, id: &str, bundle: &str) -> baton_nodes::Output {
    let shim = format!("{BIN}/containerd-shim-baton-v2");
    let address = "/run/containerd/containerd.sock";
    node.attempt(&[&shim, "-namespace", "default", "-address", address, "-id", id, "-bundle", bundle, "delete"])
}

#[test]
fn delete_answers_whatever_is_left_of_the_bundle() {
    let node = Machine::start("program-delete", "none");
    node.ok(&["sh", "-c", "mkdir -p /tmp/empty /tmp/bad; for file in config.json baton-engine.json init.pid; do echo { > /tmp/bad/$file; done"]);
    for bundle in ["/tmp/empty", "/tmp/bad", "/nowhere"] {
        let done = delete(&node, "job", bundle);
        assert!(done.status.success(), "{bundle}: {done:?}");
        // DeleteResponse: 2, the exit status, is 137.
        assert!(done.stdout.as_bytes().starts_with(b"\x10") || done.stdout.contains('\u{10}'), "{bundle}: {done:?}");
    }
    node.no_trace_is_left();
}

#[test]
fn what_a_shim_that_was_killed_left_is_removed_even_when_its_records_are_damaged() {
    let node = Machine::start("program-killed", "none");
    for record in ["", "baton-engine.json", "config.json"] {
        node.run_detached(&[], IMAGE, "job", &["/counter", "--cpu"]);
        node.task_service("job").exec("e", &["sleep", "1000"]).expect("exec");
        node.task_service("job").start("e").expect("start");
        if !record.is_empty() {
            node.write(&format!("{BUNDLES}/job/{record}"), "{");
        }
        let shim = node.shim_of("job");
        node.kill_at_once(shim);
        until("containerd has seen it", || (node.task_state("job") == "none").then_some(()));
        node.ok(&["ctr", "container", "delete", "job"]);
        node.no_trace_is_left();
    }
}

/// containerd groups the containers of a pod by this label and annotation.
const SANDBOX: &str = "io.kubernetes.cri.sandbox-id=pod";

#[test]
fn a_shim_goes_on_serving_when_the_folder_that_it_was_started_in_is_gone() {
    let node = Machine::start("shim-folder-gone", "none");
    let run = |id: &str| {
        node.ok(&[
            "ctr",
            "run",
            "-d",
            "--runtime",
            RUNTIME,
            "--label",
            SANDBOX,
            "--annotation",
            SANDBOX,
            IMAGE,
            id,
            "/bin/sleep",
            "100000",
        ]);
    };
    run("pod");
    let shim = node.shim_of("pod");
    run("second");
    for verb in [&["ctr", "task", "delete", "--force", "pod"][..], &["ctr", "container", "delete", "pod"]] {
        node.ok(verb);
    }
    // So does one whose containerd was killed before it knew of it: the next containerd removes the folder.
    run("third");
    run("pod");
    assert_eq!((node.shim_of("pod"), node.shims()), (shim, 1), "one shim, and the same");
    node.ok(&["ctr", "task", "exec", "--exec-id", "e", "third", "/bin/true"]);
}
