//! What a restored container may do is the live spec's word, whatever the image says.

use std::fs;

use baton_fault::Code;
use baton_tests::job::IMAGE;
use baton_tests::machine::Machine;
use baton_tests::until::until;
use serde_json::{Value, json};

/// A profile that allows what containerd's own one forbids.
const OPEN: &str = r#"{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
    "syscalls": [{"names": ["acct"], "action": "SCMP_ACT_ERRNO"}]}"#;
/// Tries again and again to make a user namespace, for which only a filter asks more than an ordinary user has.
const TRY: &str = "while true; do busybox unshare -U true 2>/dev/shm/new && echo allowed >/dev/shm/new; \
    busybox mv /dev/shm/new /dev/shm/said; sleep 0.1; done";
const BUNDLES: &str = "/run/containerd/io.containerd.runtime.v2.task/default";
const SAID: &str = "/dev/shm/said";

#[test]
fn a_permissive_filter_in_the_image_does_not_outlive_a_strict_live_spec() {
    let node = Machine::start("live-seccomp", "none");
    node.write("/tmp/open.json", OPEN);
    let strict = spec_of(&node, "strict", &["--seccomp"]);
    let open = save(&node, "job", &["--seccomp", "--seccomp-profile", "/tmp/open.json"]);

    restore(&node, "job", &open);
    assert_eq!(what_it_says(&node), "allowed\n");
    node.ok(&["baton", "delete", "--force", "again"]);

    let mut live = open;
    live["linux"]["seccomp"] = strict["linux"]["seccomp"].clone();
    live["process"]["rlimits"] = json!([{"type": "RLIMIT_NOFILE", "hard": 500, "soft": 400}]);
    live["process"]["oomScoreAdj"] = json!(321);
    let images = fs::read(node.root_path("/tmp/job/seccomp.img")).expect("the saved filters");
    let pid = restore(&node, "job", &live);
    let said = what_it_says(&node);
    assert!(said.contains("Operation not permitted"), "{said}");
    let limits = node.ok(&["cat", &format!("/proc/{pid}/limits")]);
    let files = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    assert_eq!(files.split_whitespace().nth(4), Some("500"), "{files}");
    assert_eq!(node.ok(&["cat", &format!("/proc/{pid}/oom_score_adj")]).trim(), "321");
    assert_eq!(fs::read(node.root_path("/tmp/job/seccomp.img")).expect("the saved filters"), images);
    let mounts = node.ok(&["cat", "/proc/self/mountinfo"]);
    assert!(!mounts.contains("seccomp.img"), "{mounts}");
    node.ok(&["baton", "delete", "--force", "again"]);
}

#[test]
fn processes_that_the_live_user_could_not_have_are_refused() {
    let node = Machine::start("live-user", "none");
    let strict = spec_of(&node, "strict", &["--seccomp"]);
    let mut free = save(&node, "free", &[]);
    free["linux"]["seccomp"] = strict["linux"]["seccomp"].clone();
    let line = refusal(&node, "free", &free);
    assert!(line.contains("the live spec has one"), "{line}");

    // Their user is root.
    free["linux"]["seccomp"] = Value::Null;
    free["process"]["user"] = json!({"uid": 1000, "gid": 1000, "additionalGids": [1000]});
    let line = refusal(&node, "free", &free);
    assert!(line.contains("it has user 0; the live spec names 1000"), "{line}");
}

/// Starts the container and gives its spec.
fn spec_of(node: &Machine, id: &str, options: &[&str]) -> Value {
    node.run_detached(options, IMAGE, id, &["/bin/sh", "-c", TRY]);
    let text = fs::read(node.root_path(&format!("{BUNDLES}/{id}/config.json")));
    let mut spec: Value = serde_json::from_slice(&text.expect("a bundle")).expect("a spec");
    spec["root"]["path"] = json!("/tmp/rootfs");
    spec
}

/// Saves the processes of a container that then ends into `/tmp/<id>`; its spec.
fn save(node: &Machine, id: &str, options: &[&str]) -> Value {
    let spec = spec_of(node, id, options);
    until("it has tried", || node.in_container(id, &["cat", SAID]).status.success().then_some(()));
    node.ok(&["ctr", "task", "checkpoint", "--image-path", &format!("/tmp/{id}"), id]);
    node.ok(&["ctr", "task", "kill", "-s", "SIGKILL", id]);
    until("it ends", || (node.task_state(id) == "STOPPED").then_some(()));
    node.attempt(&["ctr", "task", "delete", id]);
    spec
}

fn bundle(node: &Machine, live: &Value) {
    if !node.root_path("/tmp/rootfs").exists() {
        node.ok(&["mkdir", "/tmp/rootfs"]);
        node.ok(&["ctr", "image", "mount", IMAGE, "/tmp/rootfs"]);
    }
    node.write("/tmp/bundle/config.json", live.to_string());
}

/// Restores it as `again`, detached; the number of its first process.
fn restore(node: &Machine, id: &str, live: &Value) -> u64 {
    bundle(node, live);
    let images = format!("/tmp/{id}");
    // Its standard streams are the container's.
    let line = format!(
        "baton restore --bundle /tmp/bundle --image-path {images} --detach again </dev/null >/tmp/said 2>&1 || {{ cat /tmp/said >&2; exit 1; }}"
    );
    node.ok(&["sh", "-c", &line]);
    let state: Value = serde_json::from_str(&node.ok(&["baton", "state", "again"])).expect("its state");
    state["pid"].as_u64().expect("a process number")
}

fn refusal(node: &Machine, id: &str, live: &Value) -> String {
    bundle(node, live);
    let images = format!("/tmp/{id}");
    node.refused(&["baton", "restore", "--bundle", "/tmp/bundle", "--image-path", &images, "again"], Code::RestoreState)
}

/// What the restored container says next.
fn what_it_says(node: &Machine) -> String {
    node.ok(&["baton", "exec", "again", "rm", "-f", SAID]);
    until("it tries again", || {
        let done = node.attempt(&["baton", "exec", "again", "cat", SAID]);
        done.status.success().then_some(done.stdout)
    })
}
