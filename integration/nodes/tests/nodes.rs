//! What a node promises to those who test on it. Needs root, and the root of the nodes (integration/setup).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_fault::Code;
use baton_nodes::cell::Cell;
use baton_nodes::{Node, NodeOptions};

const COUNTER: &str = "localhost/baton/counter:1";

fn node(name: &str) -> Node {
    Node::start(NodeOptions::new(name)).expect("a node")
}

#[test]
fn a_node_starts_in_under_two_seconds_and_runs_containers_at_once() {
    let before = Instant::now();
    let node = node("promise-quick");
    let took = before.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    let said = node.ok(&["ctr", "run", "--rm", COUNTER, "hello", "/bin/echo", "hello"]).expect("a container");
    assert_eq!(said, "hello\n");
}

#[test]
fn a_node_is_alone_in_its_namespaces() {
    let node = node("promise-alone");
    assert_eq!(node.ok(&["hostname"]).expect("hostname"), "promise-alone\n");
    for kind in ["mnt", "pid", "net", "uts", "ipc", "cgroup"] {
        let inside = node.ok(&["readlink", &format!("/proc/1/ns/{kind}")]).expect("a namespace");
        let outside = fs::read_link(format!("/proc/self/ns/{kind}")).expect("a namespace");
        assert_ne!(inside.trim(), outside.to_string_lossy(), "{kind}");
    }
    fs::write(node.root_path("/var/lib/seen-from-outside"), "yes").expect("write into the node");
    assert_eq!(node.ok(&["cat", "/var/lib/seen-from-outside"]).expect("cat"), "yes");
    assert!(!Path::new("/var/lib/seen-from-outside").exists());
}

#[test]
fn what_one_node_pushes_the_other_pulls() {
    let (one, other) = (node("promise-push"), node("promise-pull"));
    let image = "registry.test:5000/promise/counter:1";
    one.ok(&["ctr", "image", "tag", COUNTER, image]).expect("tag");
    one.ok(&["ctr", "image", "push", image]).expect("push");
    other.ok(&["ctr", "image", "pull", image]).expect("pull");
    let said = other.ok(&["ctr", "run", "--rm", image, "pulled", "/bin/echo", "pulled"]).expect("a container");
    assert_eq!(said, "pulled\n");
}

#[test]
fn pods_run_at_once_with_an_address_on_their_node() {
    let node = node("promise-pods");
    let config = r#"{"metadata":{"name":"pod","namespace":"default","uid":"pod"},"linux":{}}"#;
    fs::write(node.root_path("/var/lib/pod.json"), config).expect("a pod's configuration");
    let end = Instant::now() + Duration::from_secs(10);
    // containerd says that it is ready before its CRI is.
    while !node.run(&["crictl", "runp", "/var/lib/pod.json"]).expect("crictl").status.success() {
        assert!(Instant::now() < end, "no pod");
    }
    let pods = node.ok(&["crictl", "pods", "--state", "ready", "--quiet"]).expect("pods");
    let said = node.ok(&["crictl", "inspectp", pods.trim()]).expect("the pod");
    let address = said.split('"').find(|word| word.starts_with("10.")).expect("an address");
    node.ok(&["ip", "route", "get", address]).expect("a route");
    assert!(node.ok(&["ip", "-brief", "address", "show", "cni0"]).expect("the bridge").contains("UP"));
}

#[test]
fn a_small_disk_can_be_filled() {
    let node = Node::start(NodeOptions::new("promise-full").disk(96 << 20)).expect("a node");
    let done = node.run(&["dd", "if=/dev/zero", "of=/var/lib/filling", "bs=1M", "count=128"]).expect("dd");
    assert!(!done.status.success());
    assert!(done.stderr.contains("No space left on device"), "{}", done.stderr);
}

#[test]
fn an_exit_status_comes_out_of_the_node_and_a_killed_command_leaves_nothing_in_it() {
    let node = node("promise-exec");
    assert_eq!(node.run(&["sh", "-c", "exit 7"]).expect("sh").status.code(), Some(7));
    assert_eq!(node.run(&["sh", "-c", "kill -9 $$"]).expect("sh").status.code(), Some(137));
    let mut child = node
        .command(["sh", "-c", "echo up; exec sleep 4711"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a command in the background");
    let mut word = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().expect("its output"), &mut word).expect("its word");
    child.kill().expect("kill");
    child.wait().expect("wait");
    let end = Instant::now() + Duration::from_secs(10);
    while node.run(&["pgrep", "-f", "sleep 4711"]).expect("pgrep").status.success() {
        assert!(Instant::now() < end, "it still runs");
    }
}

#[test]
fn a_stopped_node_leaves_nothing() {
    let node = node("promise-gone");
    node.ok(&["sh", "-c", &format!("ctr run -d {COUNTER} job /bin/sleep 1000 && ctr task pause job")])
        .expect("a frozen container");
    let first = node.pid();
    let cgroups = Cell::load("promise-gone").expect("its record").cgroups;
    assert!(cgroups.iter().all(|dir| dir.exists()));
    node.stop().expect("stop");
    assert!(cgroups.iter().all(|dir| !dir.exists()));
    assert!(!Cell::run_dir("promise-gone").exists() && !Cell::disk_dir("promise-gone").exists());
    // A zombie that the machine's first process has not yet buried has no command line.
    assert!(fs::read(format!("/proc/{first}/cmdline")).unwrap_or_default().is_empty());
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains("promise-gone"));
}

#[test]
fn a_start_that_is_killed_half_way_is_cleaned_by_stop() {
    let program = env!("CARGO_BIN_EXE_baton-node");
    let name = "promise-killed";
    let mut start = Command::new(program).args(["start", name]).stderr(Stdio::null()).spawn().expect("start");
    let end = Instant::now() + Duration::from_secs(10);
    while !Cell::run_dir(name).join("cell.json").exists() {
        assert!(Instant::now() < end, "no trace of a start");
    }
    start.kill().expect("kill");
    start.wait().expect("wait");
    let cgroups = Cell::load(name).expect("its record").cgroups;
    let done = Command::new(program).args(["stop", name]).status().expect("stop");
    assert!(done.success());
    assert!(cgroups.iter().all(|dir| !dir.exists()));
    assert!(!Cell::run_dir(name).exists() && !Cell::disk_dir(name).exists());
}

#[test]
fn a_wrong_word_gets_one_line_with_a_code() {
    let program = env!("CARGO_BIN_EXE_baton-node");
    for (words, code) in [
        (vec!["frob"], Code::Usage),
        (vec![], Code::Usage),
        (vec!["start", "Promise"], Code::Usage),
        (vec!["start", "promise-x", "--disk", "lots"], Code::Usage),
        (vec!["start", "promise-x", "--containerd", "/nowhere"], Code::File),
        (vec!["start", "promise-x", "--containerd", "1.0"], Code::File),
        (vec!["exec", "promise-x", "true"], Code::NotFound),
        (vec!["stop", "promise-x"], Code::NotFound),
    ] {
        let done = Command::new(program).args(&words).output().expect("baton-node");
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success(), "{words:?}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.starts_with(code.as_str()), "{text}");
    }
    assert!(!Cell::run_dir("promise-x").exists());
}
