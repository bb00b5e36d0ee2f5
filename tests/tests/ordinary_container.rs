//! A container without a GPU is an ordinary container.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::Machine;
use baton_tests::until::until;

#[test]
fn exit_statuses_and_output_come_out() {
    let node = Machine::start("ordinary-exit", "none");
    let before = node.store();
    let run = |id: &str, script: &str| {
        node.attempt(&["ctr", "run", "--rm", "--runtime", RUNTIME, IMAGE, id, "/bin/sh", "-c", script])
    };
    let done = run("said", "echo out; echo err >&2; exit 7");
    assert_eq!(done.status.code(), Some(7), "{done:?}");
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(run("killed", "sh -c 'kill -9 $$'; exit $?").status.code(), Some(137));
    assert_eq!(run("fine", "true").status.code(), Some(0));
    node.store_becomes(&before);
}

#[test]
fn what_is_typed_reaches_it_and_its_end_ends_it() {
    let node = Machine::start("ordinary-stdin", "none");
    let mut child = node
        .command(["timeout", "60", "ctr", "run", "--rm", "--runtime", RUNTIME, IMAGE, "cat", "/bin/cat"])
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

#[test]
fn it_is_executed_in_paused_listed_measured_killed_and_deleted() {
    let node = Machine::start("ordinary-life", "none");
    let before = node.store();
    node.run_cpu_job("job");
    let (state, pid) = node.task("job").expect("a task");
    assert_eq!(state, "RUNNING");

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

    node.ok(&["ctr", "task", "pause", "job"]);
    assert_eq!(node.task_state("job"), "PAUSED");
    let frozen = "cat /sys/fs/cgroup/freezer/default/job/freezer.state /sys/fs/cgroup/default/job/cgroup.freeze 2>/dev/null || true";
    let state = node.ok(&["sh", "-c", frozen]);
    assert!(state.contains("FROZEN") || state.trim() == "1", "{state:?}");
    node.ok(&["ctr", "task", "resume", "job"]);
    let now = node.status("job");
    node.wait_for_step("job", now.step + 5);

    let listed = node.ok(&["ctr", "task", "ps", "job"]);
    assert!(listed.split_whitespace().any(|word| word == pid.to_string()), "{listed}");
    let metrics = node.ok(&["ctr", "task", "metrics", "job"]);
    let memory = metrics.lines().find_map(|line| line.strip_prefix("memory.usage")).expect("memory");
    assert!(memory.split_whitespace().last().expect("a number").parse::<u64>().expect("a number") > 0, "{metrics}");

    node.ok(&["ctr", "task", "kill", "-s", "SIGTERM", "job"]);
    until("the job ends", || (node.task_state("job") == "STOPPED").then_some(()));
    let ended = node.attempt(&["ctr", "task", "delete", "job"]);
    assert!(ended.stderr.contains("143"), "{ended:?}");
    node.ok(&["ctr", "container", "delete", "job"]);
    node.store_becomes(&before);
}

#[test]
fn it_is_what_runc_makes_of_it() {
    let node = Machine::start("ordinary-runc", "none");
    let run = |runtime: &str, id: &str, more: &[&str], script: &str| {
        let head = ["ctr", "run", "--rm", "--runtime", runtime];
        node.attempt(&[&head[..], more, &[IMAGE, id, "/bin/sh", "-c", script]].concat())
    };
    // Ignored signals, limits and the working folder, also one that the image lacks.
    let script = "grep SigIgn /proc/self/status | cut -c 8-; ulimit -a; pwd";
    let by = |runtime: &str, id: &str| run(runtime, id, &["--cwd", "/new/folder"], script).stdout;
    let (baton, runc) = (by(RUNTIME, "b"), by("io.containerd.runc.v2", "r"));
    assert!(runc.ends_with("/new/folder\n"), "{runc}");
    // The lowest bits of SigIgn: SIGPIPE is the 13th. The rest is what the node's own programs ignore.
    let ignored = |text: &str| text.lines().next().map(|line| line.trim().to_owned()).unwrap_or_default();
    let bits = |text: &str| u64::from_str_radix(&ignored(text), 16).expect("a mask");
    assert_eq!(bits(&baton) & (1 << 12), 0, "SIGPIPE is ignored: {baton}");
    assert_eq!(baton.lines().skip(1).collect::<Vec<_>>(), runc.lines().skip(1).collect::<Vec<_>>());
}

#[test]
fn execs_leave_nothing_behind() {
    let node = Machine::start("ordinary-execs", "none");
    node.run_cpu_job("job");
    let state = node.root_path("/run/baton/engine/default/job");
    let files = || std::fs::read_dir(&state).expect("the engine's state").count();
    node.in_container("job", &["true"]);
    let before = files();
    for _ in 0..5 {
        assert_eq!(node.in_container("job", &["true"]).status.code(), Some(0));
    }
    assert_eq!(files(), before);
}
