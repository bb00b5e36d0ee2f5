//! A task's runtime options, in every form in which containerd sends them: each is honoured, or refused by name.

use baton_fault::Code;
use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::{BIN, Machine};
use baton_tests::task_service::any;
use baton_tests::until::until;

/// Where the options lie that `ctr` hands on.
const FILE: &str = "/tmp/options";
/// An engine that writes down how it is called.
const ENGINE: &str = "#!/bin/sh\necho \"$@\" >> /tmp/calls\nexec BIN/baton \"$@\"\n";

fn with_engine(name: &str) -> Machine {
    let node = Machine::start(name, "none");
    node.write("/tmp/engine", ENGINE.replace("BIN", BIN));
    node.ok(&["chmod", "755", "/tmp/engine"]);
    node
}

/// The calls of the engine so far with that verb, each as one line.
fn calls(node: &Machine, verb: &str) -> Vec<String> {
    let text = std::fs::read_to_string(node.root_path("/tmp/calls")).unwrap_or_default();
    let verb = format!(" {verb} ");
    text.lines().filter(|line| line.contains(&verb)).map(str::to_owned).collect()
}

#[test]
fn a_table_names_the_engine_and_what_it_is_to_do() {
    let node = with_engine("options-table");
    node.write(FILE, "BinaryName = '/tmp/engine'\nRoot = '/tmp/root'\nNoNewKeyring = true\nNoPivotRoot = true\nIoUid = 7\nIoGid = 8\n");
    let script = "stat -L -c '%u %g' /proc/self/fd/1 /proc/self/fd/2";
    let run = ["ctr", "run", "--rm", "--runtime", RUNTIME, "--runtime-config-path", FILE, IMAGE, "job"];
    let said = until("its output is heard", || {
        let said = node.ok(&[&run[..], &["sh", "-c", script]].concat());
        (!said.is_empty()).then_some(said)
    });
    assert_eq!(said, "7 8\n7 8\n");
    let made = calls(&node, "create").pop().expect("a call");
    assert!(made.starts_with("--root /tmp/root/default --log "), "{made}");
    assert!(made.contains(" --no-pivot ") && made.contains(" --no-new-keyring "), "{made}");
    node.no_trace_is_left();
}

#[test]
fn runcs_own_options_name_the_engine_too() {
    let node = with_engine("options-runc");
    node.run_detached(&[], IMAGE, "job", &["/counter", "--cpu"]);
    let bundles = "/run/containerd/io.containerd.runtime.v2.task/default";
    node.ok(&["ctr", "container", "create", "--runtime", RUNTIME, IMAGE, "other", "true"]);
    node.ok(&[
        "sh",
        "-c",
        "mkdir -p /tmp/b/rootfs/proc && touch /tmp/b/rootfs/counter && chmod 755 /tmp/b/rootfs/counter",
    ]);
    let config = std::fs::read_to_string(node.root_path(&format!("{bundles}/job/config.json"))).expect("a config");
    node.write("/tmp/b/config.json", config.replace("/default/job", "/default/other"));
    let other = node.task_service("job").about("other");
    // runc's options with 6, the name of the engine, and 1, no pivot_root.
    let options = any("containerd.runc.v1.Options", [&b"\x08\x01\x32\x0b"[..], b"/tmp/engine"].concat());
    other.create("/tmp/b", Some(options)).expect("create");
    let made = calls(&node, "create").pop().expect("a call");
    assert!(made.contains(" --no-pivot ") && !made.contains("--no-new-keyring"), "{made}");
    assert_eq!(other.delete(""), Ok(137), "it was killed before it was started");
    assert_eq!(calls(&node, "delete").len(), 1);
}

#[test]
fn the_shim_joins_the_cgroup_that_is_named() {
    let node = Machine::start("options-cgroup", "none");
    node.ok(&["sh", "-c", "for dir in /sys/fs/cgroup/*/; do mkdir -p $dir/shims; done"]);
    node.ok(&["sh", "-c", "[ ! -e /sys/fs/cgroup/cpuset/shims ] || for file in cpus mems; do cat /sys/fs/cgroup/cpuset/cpuset.$file > /sys/fs/cgroup/cpuset/shims/cpuset.$file; done"]);
    node.write(FILE, "ShimCgroup = '/shims'\n");
    node.run_detached(&["--runtime-config-path", FILE], IMAGE, "job", &["/counter", "--cpu"]);
    let pid = node.shim_of("job");
    let cgroup = node.ok(&["cat", &format!("/proc/{pid}/cgroup")]);
    assert!(cgroup.lines().any(|line| line.contains("memory") && line.ends_with("/shims")), "{cgroup}");
    let score = node.ok(&["cat", &format!("/proc/{pid}/oom_score_adj")]);
    let containerd = node.program("containerd").expect("containerd");
    let its: i32 = node.ok(&["cat", &format!("/proc/{containerd}/oom_score_adj")]).trim().parse().expect("a number");
    assert_eq!(score.trim(), (its + 1).to_string(), "the shim goes before containerd");
}

#[test]
fn what_is_not_known_is_refused_by_its_name() {
    let node = Machine::start("options-bad", "none");
    let before = node.store();
    let run = ["ctr", "run", "--rm", "--runtime", RUNTIME, "--runtime-config-path", FILE, IMAGE, "job", "true"];
    for (text, code, word) in [
        ("Frob = 1\n", Code::Settings, "Frob"),
        ("CriuPath = '/usr/sbin/criu'\n", Code::Settings, "CriuPath"),
        ("BinaryName = '/nowhere'\n", Code::Unavailable, "/nowhere"),
        ("{\"binary_nam\": 1}", Code::Settings, "binary_nam"),
    ] {
        node.write(FILE, text);
        let line = node.refused(&run, code);
        assert!(line.contains(word), "{line}");
    }
    std::fs::remove_file(node.root_path(FILE)).expect("the options");
    let line = node.refused(&run, Code::Settings);
    assert!(line.contains(FILE), "{line}");
    node.store_becomes(&before);
}

#[test]
fn a_checkpoint_has_its_options_and_a_restore_its_folders() {
    let node = with_engine("options-criu");
    node.write(FILE, "BinaryName = '/tmp/engine'\nCriuWorkPath = '/tmp/criu-work'\n");
    node.run_detached(&["--runtime-config-path", FILE], IMAGE, "job", &["/counter", "--cpu"]);
    let before = node.first_status("job");
    node.ok(&["ctr", "task", "checkpoint", "--exit", "--image-path", "/tmp/images", "--work-path", "/tmp/work", "job"]);
    let made = calls(&node, "checkpoint").pop().expect("a call");
    assert!(
        made.contains(" --image-path /tmp/images --work-path /tmp/work ") && !made.contains("leave-running"),
        "{made}"
    );
    node.delete_stopped("job");
    node.ok(&["ctr", "container", "delete", "job"]);
    // Named in the options and not by the client.
    node.write(FILE, "BinaryName = '/tmp/engine'\nCriuImagePath = '/tmp/images'\nCriuWorkPath = '/tmp/criu-work'\n");
    node.run_detached(&["--runtime-config-path", FILE], IMAGE, "job", &["/counter", "--cpu"]);
    let made = calls(&node, "restore").pop().expect("a call");
    assert!(made.contains(" --image-path /tmp/images --work-path /tmp/criu-work "), "{made}");
    assert!(node.first_status("job").step >= before.step);
}
