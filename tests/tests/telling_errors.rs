//! What is wrong in a bundle is said in one line that names the path or the value, and the cause.

use baton_fault::Code;
use baton_tests::machine::Machine;
use serde_json::{Value, json};

fn bind(source: &str, destination: &str) -> Value {
    json!({ "source": source, "destination": destination, "type": "bind", "options": ["rbind"] })
}

/// What is changed in a good config.json, by pointer, and the words that the refusal must have.
fn cases() -> Vec<(&'static str, Value, Code, &'static [&'static str])> {
    let mounted = "/mounts/-";
    let private = |kind| json!({ "type": kind });
    let netns = json!({ "type": "network", "path": "/run/none" });
    let namespaces = json!([private("mount"), private("pid"), private("uts"), private("ipc"), netns]);
    vec![
        (mounted, bind("/nowhere/x", "/data"), Code::Engine, &["/nowhere/x", "/data", "No such file"]),
        (mounted, bind("/tmp", "/counter"), Code::Engine, &["/tmp", "/counter is a file", "the source a folder"]),
        (mounted, bind("/etc/passwd", "/usr"), Code::Engine, &["/etc/passwd", "/usr is a folder"]),
        (mounted, bind("/tmp", "/counter/x"), Code::Engine, &["/tmp", "/counter/x", "Not a directory"]),
        (
            mounted,
            json!({ "source": "none", "destination": "/data", "type": "frobfs" }),
            Code::Engine,
            &["frobfs", "/data", "No such device"],
        ),
        (
            mounted,
            json!({ "source": "none", "destination": "/data", "type": "tmpfs", "options": ["frob=7"] }),
            Code::Engine,
            &["tmpfs", "/data", "frob=7", "Invalid argument"],
        ),
        (mounted, bind("/tmp", "/proc/1"), Code::Bundle, &["/proc/1"]),
        ("/root/path", json!("norootfs"), Code::File, &["/tmp/b/norootfs", "No such file"]),
        ("/linux/namespaces", namespaces, Code::Engine, &["net namespace /run/none", "No such file"]),
        ("/linux/sysctl", json!({ "net.ipv4.ip_forward": "no" }), Code::Engine, &["net.ipv4.ip_forward=no", "Invalid"]),
        ("/linux/sysctl", json!({ "net.frob": "1" }), Code::Engine, &["net/frob", "No such file"]),
        ("/linux/rootfsPropagation", json!("frob"), Code::Engine, &["rootfsPropagation", "frob"]),
        ("/linux/resources/memory", json!({ "limit": 1 }), Code::Engine, &["want of memory", "1 bytes"]),
        ("/hostname", json!("x".repeat(70)), Code::Engine, &["hostname xxx", "Invalid argument"]),
        (
            "/hooks",
            json!({ "createRuntime": [{ "path": "/nowhere/hook" }] }),
            Code::Engine,
            &["/nowhere/hook", "No such file"],
        ),
        ("/process/apparmorProfile", json!("frob"), Code::Bundle, &["apparmor"]),
        ("/process/selinuxLabel", json!("frob"), Code::Bundle, &["SELinux label frob"]),
        ("/process/args/0", json!("/bin/frob"), Code::Engine, &["/bin/frob", "no such file"]),
    ]
}

#[test]
fn what_is_wrong_is_named_and_nothing_is_left() {
    let node = Machine::start("telling", "none");
    node.bundle("/tmp/b", &["/bin/true"], |_| {});
    let file = "/tmp/b/config.json";
    let text = std::fs::read(node.root_path(file)).expect("a config.json");
    let good: Value = serde_json::from_slice(&text).expect("JSON");
    for (pointer, value, code, words) in cases() {
        let mut config = good.clone();
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        match config.pointer_mut(parent).expect(parent) {
            Value::Array(list) if name == "-" => list.push(value),
            Value::Array(list) => list[name.parse::<usize>().expect("a number")] = value,
            parent => parent[name] = value,
        }
        node.write(file, config.to_string());
        let said = node.refused(&["baton", "run", "--bundle", "/tmp/b", "job"], code);
        let absent: Vec<_> = words.iter().filter(|word| !said.contains(**word)).collect();
        assert!(absent.is_empty(), "{pointer}: no {absent:?} in {said}");
        node.refused(&["baton", "state", "job"], Code::NotFound);
        assert_eq!(node.ok(&["sh", "-c", "find /sys/fs/cgroup -type d -name '*job'"]), "", "{pointer}");
    }
    node.write(file, good.to_string());
    node.ok(&["baton", "run", "--bundle", "/tmp/b", "job"]);
}

#[test]
fn a_state_that_cannot_be_written_down_leaves_neither_process_nor_cgroup() {
    let node = Machine::start("telling-state", "none");
    let file = "/tmp/r/job/state.json";
    node.bundle("/tmp/b", &["/bin/sleep", "1234"], |config| {
        let script = format!("rm {file} && mkdir {file}");
        config["hooks"] = json!({ "createRuntime": [{ "path": "/bin/sh", "args": ["sh", "-c", script] }] });
    });
    let run = "baton --root /tmp/r run --detach --bundle /tmp/b job </dev/null >/dev/null 2>/tmp/said";
    assert!(!node.attempt(&["sh", "-c", run]).status.success());
    let said = node.ok(&["cat", "/tmp/said"]);
    assert!(said.starts_with("baton: SYSTEM: write down the state of container job: "), "{said}");
    assert_eq!(node.ok(&["sh", "-c", "pgrep baton: || true"]), "");
    assert_eq!(node.ok(&["sh", "-c", "find /sys/fs/cgroup -type d -name '*job'; ls /tmp/r"]), "");
}
