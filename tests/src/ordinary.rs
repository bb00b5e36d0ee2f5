//! What any runtime of containerd does for a container without a GPU, asked by `ctr`. Each flow demands it of the node
//! that it is given, whatever engine runs its containers.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::job::{IMAGE, RUNTIME};
use crate::machine::Machine;
use crate::until::until;

/// Exit statuses and both outputs come out, and nothing is left.
///
/// # Panics
/// When they do not.
pub fn output_comes_out(node: &Machine) {
    let before = node.store();
    let run = |id: &str, script: &str| node.attempt(&node.run_line(&["--rm", IMAGE, id, "/bin/sh", "-c", script]));
    let done = run("said", "echo out; echo err >&2; exit 7");
    assert_eq!(done.status.code(), Some(7), "{done:?}");
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(run("killed", "sh -c 'kill -9 $$'; exit $?").status.code(), Some(137));
    assert_eq!(run("fine", "true").status.code(), Some(0));
    node.store_becomes(&before);
}

/// What is typed reaches the container, and the end of the input ends it.
///
/// # Panics
/// When it does not.
pub fn input_reaches_it(node: &Machine) {
    let line = node.run_line(&["--rm", IMAGE, "cat", "/bin/cat"]);
    let mut child = node
        .command([&["timeout", "60"], &line[..]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ctr run");
    let mut input = child.stdin.take().expect("its input");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    for word in ["one", "two"] {
        writeln!(input, "{word}").expect("write");
        assert_eq!(lines.next().expect("a line").expect("text"), word);
    }
    drop(input);
    assert!(lines.next().is_none());
    assert_eq!(child.wait().expect("its end").code(), Some(0));
}

/// It is executed in, paused, listed, killed and deleted, and nothing is left.
///
/// # Panics
/// When one of these fails.
pub fn it_lives_and_dies(node: &Machine) {
    let before = node.store();
    node.run_cpu_job("job");
    let (state, pid) = node.task("job").expect("a task");
    assert_eq!(state, "RUNNING");
    execs_answer(node);

    node.ok(&["ctr", "task", "pause", "job"]);
    assert_eq!(node.task_state("job"), "PAUSED");
    assert!(node.is_frozen("job"));
    node.ok(&["ctr", "task", "resume", "job"]);
    let now = node.status("job");
    node.wait_for_step("job", now.step + 5);

    let listed = node.ok(&["ctr", "task", "ps", "job"]);
    assert!(listed.split_whitespace().any(|word| word == pid.to_string()), "{listed}");

    node.ok(&["ctr", "task", "kill", "-s", "SIGTERM", "job"]);
    assert!(node.delete_stopped("job").contains("143"));
    node.ok(&["ctr", "container", "delete", "job"]);
    node.store_becomes(&before);
}

/// What it uses is told.
///
/// # Panics
/// When it is not, or the node has no controller of memory.
pub fn it_is_measured(node: &Machine) {
    node.run_cpu_job("job");
    let metrics = node.ok(&["ctr", "task", "metrics", "job"]);
    let memory = metrics.lines().find_map(|line| line.strip_prefix("memory.usage")).expect("memory");
    assert!(memory.split_whitespace().last().expect("a number").parse::<u64>().expect("a number") > 0, "{metrics}");
    node.ok(&["ctr", "task", "kill", "-s", "SIGKILL", "job"]);
    node.delete_stopped("job");
    node.ok(&["ctr", "container", "delete", "job"]);
}

/// Limits, ignored signals and the working folder, also one that the image lacks, are those that runc gives.
///
/// # Panics
/// When they are others.
pub fn it_is_what_runc_makes_of_it(node: &Machine, options: &[&str]) {
    let script = "grep SigIgn /proc/self/status | cut -c 8-; ulimit -a; ulimit -Ha; pwd";
    let by = |runtime: &str, id: &str| {
        let head = ["ctr", "run", "--rm", "--runtime", runtime, "--cwd", "/new/folder"];
        node.attempt(&[&head[..], options, &[IMAGE, id, "/bin/sh", "-c", script]].concat()).stdout
    };
    let (baton, runc) = (by(RUNTIME, "b"), by("io.containerd.runc.v2", "r"));
    assert!(runc.ends_with("/new/folder\n"), "{runc}");
    // The lowest bits of SigIgn: SIGPIPE is the 13th. The rest is what the node's own programs ignore.
    let ignored = baton.lines().next().map(str::trim).unwrap_or_default();
    let bits = u64::from_str_radix(ignored, 16).expect("a mask");
    assert_eq!(bits & (1 << 12), 0, "SIGPIPE is ignored: {baton}");
    assert_eq!(baton.lines().skip(1).collect::<Vec<_>>(), runc.lines().skip(1).collect::<Vec<_>>());
}

fn execs_answer(node: &Machine) {
    for code in [0, 9, 255] {
        // A client that is slow to open its end of the output of so short a program loses it, under runc's shim too.
        let done = until("its output is heard", || {
            let done = node.in_container("job", &["sh", "-c", &format!("echo said; exit {code}")]);
            (!done.stdout.is_empty()).then_some(done)
        });
        assert_eq!((done.status.code(), done.stdout.as_str()), (Some(code), "said\n"));
    }
    let mut child = node
        .command(["timeout", "60", "ctr", "task", "exec", "--exec-id", "typed", "job", "/bin/cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ctr task exec");
    child.stdin.take().expect("its input").write_all(b"typed\n").expect("write");
    let done = child.wait_with_output().expect("its end");
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b"typed\n"[..]));
}

/// containerd's own checkpoint of it leaves it running, and a restore of that goes on from there.
///
/// # Panics
/// When it does not.
pub fn it_is_checkpointed_and_restored(node: &Machine, reference: &str) {
    node.run_cpu_job("job");
    let before = node.wait_for_step("job", 30);
    node.ok(&["ctr", "container", "checkpoint", "--task", "--rw", "--image", "job", reference]);
    assert_eq!(node.task_state("job"), "RUNNING");
    let after = node.status("job");
    node.wait_for_step("job", after.step.max(before.step) + 10);

    node.ok(&["ctr", "task", "kill", "-s", "SIGKILL", "job"]);
    node.delete_stopped("job");
    node.ok(&["ctr", "container", "delete", "job"]);
    node.ok(&["ctr", "container", "restore", "--live", "--rw", "again", reference]);
    assert_eq!(node.task_state("again"), "RUNNING");
    let again = node.status("again");
    assert!(again.step >= before.step, "{} < {}", again.step, before.step);
    node.wait_for_step("again", again.step + 10);
}

/// containerd's own restores of one checkpoint run beside the source, each by itself, and are checkpointed again.
///
/// # Panics
/// When they do not.
pub fn it_is_restored_beside_itself(node: &Machine, image: &str) {
    let checkpoint = |id: &str, reference: &str| {
        node.ok(&["ctr", "container", "checkpoint", "--task", "--rw", "--image", id, reference]);
    };
    let restore = |id: &str, reference: &str| {
        node.ok(&["ctr", "container", "restore", "--live", "--rw", id, reference]);
        node.status(id)
    };
    let goes_on = |id: &str, step: u64| {
        let now = node.status(id);
        assert!(now.step >= step, "{id} fell back from step {step} to {}", now.step);
        node.wait_for_step(id, now.step + 10);
    };
    let (once, twice) = (format!("{image}:1"), format!("{image}:2"));
    node.run_cpu_job("job");
    let before = node.wait_for_step("job", 30).step;
    checkpoint("job", &once);
    for id in ["first", "second"] {
        assert!(restore(id, &once).step >= before);
        goes_on(id, before);
        assert_eq!(node.cgroups(id), BTreeSet::from([id.to_owned()]));
    }
    goes_on("job", before);

    // Each is frozen, seen and ended by itself.
    node.ok(&["ctr", "task", "pause", "first"]);
    ["job", "second"].iter().for_each(|id| goes_on(id, before));
    node.ok(&["ctr", "task", "resume", "first"]);
    goes_on("first", before);
    assert_eq!(node.ok(&["ctr", "task", "ps", "first"]).lines().count(), 2);
    node.ok(&["ctr", "task", "kill", "-s", "SIGTERM", "first"]);
    assert!(node.delete_stopped("first").contains("143"));

    // A restored one is saved and restored like any other.
    let later = node.status("second").step;
    checkpoint("second", &twice);
    assert!(restore("third", &twice).step >= later);
    ["job", "second", "third"].iter().for_each(|id| goes_on(id, later));
}

impl Machine {
    /// The last names of the cgroups that a task's first process is in, without those of hierarchies that have no
    /// controller.
    fn cgroups(&self, id: &str) -> BTreeSet<String> {
        let (_, pid) = self.task(id).expect("a task");
        let text = self.ok(&["cat", &format!("/proc/{pid}/cgroup")]);
        let last = |line: &str| line.rsplit('/').next().unwrap_or_default().to_owned();
        // On a machine of version 1 there is nothing in the other; on a view of version 2 it is the other way round.
        let unified = text.lines().find(|line| line.starts_with("0::") && *line != "0::/");
        let legacy = |line: &&str| line.contains(":freezer:") || line.contains(":memory:");
        unified.map_or_else(|| text.lines().filter(legacy).map(last).collect(), |line| BTreeSet::from([last(line)]))
    }
}

/// With a terminal it has one of the client's size, hears what is typed, and its exit status comes out.
///
/// # Panics
/// When it does not.
pub fn it_has_a_terminal(node: &Machine) {
    // `ctr` tells the size of the window a moment after the start.
    let sized = |size: &str| {
        format!(
            "while [ \"$(busybox stty size 2>&1)\" != '{size}' ]; do busybox sleep 0.1; done; echo sized $((40 + 2))\n"
        )
    };
    let mut terminal = node.on_terminal(&node.run_line(&["--rm", "-t", IMAGE, "tty", "/bin/sh"]), 33, 111);
    terminal.type_in(&sized("33 111"));
    terminal.shows("sized 42");
    terminal.type_in("exit 5\n");
    assert_eq!(terminal.end(), Some(5));

    node.run_cpu_job("typed");
    let exec = ["ctr", "task", "exec", "-t", "--exec-id", "shell", "typed", "/bin/sh"];
    let mut terminal = node.on_terminal(&exec, 22, 77);
    terminal.type_in(&sized("22 77"));
    terminal.shows("sized 42");
    terminal.type_in("exit 6\n");
    assert_eq!(terminal.end(), Some(6));
}
