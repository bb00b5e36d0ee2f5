//! Checkpoint and restore by the engine's own command line, without containerd.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use baton_fault::Code;
use baton_tests::job::Status;
use baton_tests::machine::Machine;
use baton_tests::until::until;
use serde_json::json;

/// A program on a node that somebody talks to over its terminal.
struct Talk {
    child: Child,
    typed: ChildStdin,
    printed: BufReader<ChildStdout>,
}

impl Talk {
    fn begin(node: &Machine, command: &[&str]) -> Talk {
        let mut child = node
            .command([&["timeout", "60"], command].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a program");
        let (typed, printed) = (child.stdin.take().expect("input"), child.stdout.take().expect("output"));
        Talk { child, typed, printed: BufReader::new(printed) }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.typed, "{line}").expect("type");
    }

    /// Reads until a line ends so.
    fn hear(&mut self, wanted: &str) {
        let mut heard = String::new();
        loop {
            let begin = heard.len();
            let length = self.printed.read_line(&mut heard).expect("read");
            assert!(length > 0, "it ended before {wanted:?}: {heard}");
            if heard[begin..].trim_end().ends_with(wanted) {
                return;
            }
        }
    }

    fn end(mut self) -> Option<i32> {
        drop(self.typed);
        self.child.wait().expect("its end").code()
    }
}

#[test]
fn a_shell_on_a_terminal_goes_on_on_another() {
    let node = Machine::start("hand-terminal", "none");
    node.bundle("/tmp/b", &["sh"], |config| config["process"]["terminal"] = json!(true));
    let mut shell = Talk::begin(&node, &["baton", "run", "--bundle", "/tmp/b", "job"]);
    shell.say("number=41; tty");
    shell.hear("/dev/pts/0");
    node.ok(&["baton", "checkpoint", "--image-path", "/tmp/i", "job"]);
    assert_eq!(shell.end(), Some(137));
    node.refused(&["baton", "state", "job"], Code::NotFound);

    let restore = ["baton", "restore", "--bundle", "/tmp/b", "--image-path", "/tmp/i"];
    // Nobody would have the other end.
    node.refused(&[&restore[..], &["--detach", "again"]].concat(), Code::Usage);
    let mut again = Talk::begin(&node, &[&restore[..], &["again"]].concat());
    again.say("echo $((number + 1)); tty");
    again.hear("42");
    again.hear("/dev/pts/0");
    assert_eq!(node.ok(&["baton", "exec", "again", "sh", "-c", "tty; echo in"]).lines().last(), Some("in"));
    again.say("exit 5");
    assert_eq!(again.end(), Some(5));
}

fn status(node: &Machine, id: &str) -> Status {
    until("it answers", || {
        let done = node.attempt(&["baton", "exec", id, "/counter", "status", "--socket", "/tmp/s"]);
        done.status.success().then(|| serde_json::from_str(&done.stdout).expect("a status"))
    })
}

#[test]
fn nothing_is_created_in_a_group_that_others_run_in() {
    let node = Machine::start("hand-occupied", "none");
    let occupied = |config: &mut serde_json::Value| config["linux"]["cgroupsPath"] = json!("/by-hand/job");
    let program = ["/counter", "--cpu", "--socket", "/tmp/s"];
    node.bundle("/tmp/b", &program, occupied);
    node.ok(&["sh", "-c", "baton run --detach --bundle /tmp/b job </dev/null >/dev/null 2>&1"]);
    let before = status(&node, "job");
    node.bundle("/tmp/plain", &program, occupied);
    node.bundle("/tmp/mapped", &program, |config| {
        occupied(config);
        config["linux"]["namespaces"].as_array_mut().expect("namespaces").push(json!({ "type": "user" }));
        let map = json!([{ "containerID": 0, "hostID": 100_000, "size": 65_536 }]);
        config["linux"]["uidMappings"] = map.clone();
        config["linux"]["gidMappings"] = map;
    });
    for bundle in ["/tmp/plain", "/tmp/mapped"] {
        node.refused(&["baton", "create", "--bundle", bundle, "other"], Code::Exists);
        node.refused(&["baton", "state", "other"], Code::NotFound);
        assert!(status(&node, "job").step >= before.step, "who runs there lives");
    }
}

#[test]
fn a_group_that_others_run_in_is_never_touched_and_a_restore_makes_nothing_else() {
    let node = Machine::start("hand-group", "none");
    node.bundle("/tmp/b", &["/counter", "--cpu", "--socket", "/tmp/s"], |config| {
        config["linux"]["cgroupsPath"] = json!("/by-hand/job");
        // What this version does not know stays where it is and does no harm.
        config["ofTomorrow"] = json!({ "unknown": [1, 2] });
    });
    node.ok(&["sh", "-c", "baton run --detach --bundle /tmp/b job </dev/null >/dev/null 2>&1"]);
    let before = status(&node, "job");
    node.ok(&["baton", "checkpoint", "--leave-running", "--image-path", "/tmp/i", "job"]);
    let restore = |images: &str| {
        ["baton", "restore", "--detach", "--bundle", "/tmp/b", "--image-path", images, "again"].map(str::to_owned)
    };
    let refused = |images: &str, code: Code| {
        let command = restore(images);
        let said = node.refused(&command.each_ref().map(String::as_str), code);
        node.refused(&["baton", "state", "again"], Code::NotFound);
        assert!(status(&node, "job").step >= before.step, "the source lives");
        said
    };
    refused("/tmp/i", Code::Exists);

    // Images that are empty, cut, full of links, of something else, or not there.
    node.ok(&["sh", "-c", "mkdir /tmp/empty /tmp/links /tmp/other; cp -a /tmp/i /tmp/cut; cp -a /tmp/i /tmp/less"]);
    node.ok(&[
        "sh",
        "-c",
        "ln -s /tmp/i/* /tmp/links/; echo x >/tmp/other/readme; cp -a /tmp/i /tmp/nested; mkdir /tmp/nested/x",
    ]);
    node.ok(&["sh", "-c", "truncate -s 20 /tmp/cut/mountpoints-*.img; truncate -s 100 /tmp/less/pages-1.img"]);
    node.ok(&["sh", "-c", "cp -a /tmp/i /tmp/damaged; truncate -s 30 /tmp/damaged/mm-1.img"]);
    node.ok(&["sh", "-c", "cp -a /tmp/i /tmp/parent; ln -s ../i /tmp/parent/parent"]);
    refused("/tmp/empty", Code::ImageCorrupt);
    refused("/tmp/links", Code::ImageCorrupt);
    refused("/tmp/other", Code::ImageCorrupt);
    refused("/tmp/nested", Code::ImageCorrupt);
    refused("/tmp/cut", Code::ImageCorrupt);
    assert!(refused("/tmp/less", Code::ImageCorrupt).contains("pages-1.img has 100 of"));
    assert!(refused("/tmp/parent", Code::ImageCorrupt).contains("--parent-path"));
    refused("/nowhere", Code::File);

    node.ok(&["baton", "delete", "--force", "job"]);
    let command = restore("/tmp/damaged");
    let said = node.refused(&command.each_ref().map(String::as_str), Code::Criu);
    assert!(said.contains("mm-1.img") || said.contains("mm"), "CRIU's own word is in {said}");
    assert!(node.ok(&["cat", "/tmp/b/criu-restore.log"]).contains("Error"));
    assert_eq!(node.ok(&["sh", "-c", "find /sys/fs/cgroup -path '*/by-hand/job' -type d"]), "");

    let line = restore("/tmp/i").join(" ");
    node.ok(&["sh", "-c", &format!("{line} </dev/null >/dev/null 2>&1")]);
    assert!(status(&node, "again").step >= before.step);
    node.ok(&["baton", "delete", "--force", "again"]);
}

#[test]
fn a_cgroup_namespace_begins_at_the_restored_containers_own_cgroup() {
    let node = Machine::start("hand-cgroupns", "none");
    node.bundle("/tmp/b", &["/counter", "--cpu", "--socket", "/tmp/s"], |config| {
        config["linux"]["cgroupsPath"] = json!("/by-hand/space");
        config["linux"]["namespaces"].as_array_mut().expect("namespaces").push(json!({ "type": "cgroup" }));
        config["mounts"].as_array_mut().expect("mounts").retain(|mount| mount["type"] != "cgroup");
    });
    let freezer = |id: &str| {
        let text = node.ok(&["baton", "exec", id, "grep", ":freezer:", "/proc/1/cgroup"]);
        text.trim().rsplit(':').next().expect("a path").to_owned()
    };
    node.ok(&["sh", "-c", "baton run --detach --bundle /tmp/b job </dev/null >/dev/null 2>&1"]);
    let before = status(&node, "job");
    assert_eq!(freezer("job"), "/");
    node.ok(&["baton", "checkpoint", "--image-path", "/tmp/i", "job"]);
    node.ok(&[
        "sh",
        "-c",
        "baton restore --detach --bundle /tmp/b --image-path /tmp/i again </dev/null >/dev/null 2>&1",
    ]);
    assert!(status(&node, "again").step >= before.step);
    assert_eq!(freezer("again"), "/");
    let pid = node.ok(&["baton", "ps", "--format", "json", "again"]);
    let pid = pid.trim().trim_matches(['[', ']']).to_owned();
    assert!(node.ok(&["cat", &format!("/proc/{pid}/cgroup")]).contains(":freezer:/by-hand/space"));
    node.ok(&["baton", "delete", "--force", "again"]);
}

/// Numbers sent over TCP, and a file that is open under a name that it has no more.
const BUSY: &str = "busybox sleep 100000 | busybox nc -l -p 7000 >/tmp/heard & \
    echo kept >/tmp/a; exec 3</tmp/a; ln /tmp/a /tmp/b; rm /tmp/a; \
    until busybox netstat -ltn | grep -q 7000; do busybox sleep 0.05; done; \
    (n=0; while true; do n=$((n + 1)); echo $n; busybox sleep 0.02; done) | busybox nc 127.0.0.1 7000";

/// How many numbers have come; they must be all up to the last.
fn heard(node: &Machine) -> usize {
    let text = std::fs::read_to_string(node.root_path("/tmp/b/rootfs/tmp/heard")).unwrap_or_default();
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let numbers: Vec<usize> = whole.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len()), "{numbers:?}");
    numbers.len()
}

#[test]
fn connections_and_deleted_files_go_on_where_they_are_asked_for() {
    let node = Machine::start("hand-busy", "none");
    node.bundle("/tmp/b", &["sh", "-c", BUSY], |_| {});
    node.ok(&["sh", "-c", "baton run --detach --bundle /tmp/b job </dev/null >/dev/null 2>&1"]);
    let hears_more = || {
        let before = heard(&node);
        until("more is heard", || (heard(&node) > before + 5).then_some(()));
    };
    hears_more();
    let checkpoint = ["baton", "checkpoint", "--image-path", "/tmp/i"];
    let said = node.refused(&[&checkpoint[..], &["job"]].concat(), Code::Criu);
    assert!(said.contains("TCP"), "{said}");
    assert!(node.ok(&["cat", "/tmp/b/criu-dump.log"]).contains("Error"));
    hears_more();
    node.ok(&["rm", "-rf", "/tmp/i"]);
    node.ok(&[&checkpoint[..], &["--tcp-established", "job"]].concat());
    let then = heard(&node);

    let line = |options: &str| {
        let restore = format!("baton restore --detach {options} --bundle /tmp/b --image-path /tmp/i again");
        node.attempt(&["sh", "-c", &format!("{restore} </dev/null >/dev/null 2>/tmp/said")]).status.success()
    };
    assert!(!line("--file-locks"), "connections come back only when they are asked for");
    assert!(line("--tcp-established"), "{}", node.ok(&["cat", "/tmp/said"]));
    hears_more();
    assert!(heard(&node) > then);
    let exec = |script: &str| node.attempt(&["baton", "exec", "again", "sh", "-c", script]);
    assert_eq!(exec("cat /proc/1/fd/3").stdout, "kept\n");
    node.ok(&["baton", "delete", "--force", "again"]);
}

#[test]
fn without_criu_or_with_an_old_one_nothing_happens() {
    let node = Machine::start("hand-criu", "none");
    node.bundle("/tmp/b", &["/counter", "--cpu", "--socket", "/tmp/s"], |_| {});
    node.ok(&["sh", "-c", "baton run --detach --bundle /tmp/b job </dev/null >/dev/null 2>&1"]);
    let before = status(&node, "job");
    node.ok(&["sh", "-c", "mkdir /tmp/bin; ln -s $(command -v baton) /tmp/bin/baton"]);
    for verb in [&["checkpoint", "job"][..], &["restore", "--bundle", "/tmp/b", "again"]] {
        let command = [&["env", "PATH=/tmp/bin", "baton"][..], verb].concat();
        assert!(node.refused(&command, Code::CriuVersion).contains("4.2"));
    }
    let now = status(&node, "job");
    assert!(now.step >= before.step);
    node.ok(&["baton", "delete", "--force", "job"]);
}
