//! Output goes where a client wants it: into a file, or to a logging program, as well as through FIFOs; of a
//! container's first process, of an exec, and of a terminal.

use std::io::{BufRead, BufReader, Write};

use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::Machine;
use baton_tests::until::until_equal;

/// Notes what it is told, then is ready, then writes down what it reads.
const LOGGER: &str = r#"#!/bin/sh
echo "$CONTAINER_NAMESPACE $CONTAINER_ID $*" > /tmp/log-$CONTAINER_ID.told
exec 5>&-
cat <&3 > /tmp/log-$CONTAINER_ID.out &
cat <&4 > /tmp/log-$CONTAINER_ID.err
wait
echo done >> /tmp/log-$CONTAINER_ID.told
"#;

fn with_logger(name: &str) -> Machine {
    let node = Machine::start(name, "none");
    node.write("/tmp/logger", LOGGER);
    node.ok(&["chmod", "755", "/tmp/logger"]);
    node
}

fn text(node: &Machine, path: &str) -> String {
    std::fs::read_to_string(node.root_path(path)).unwrap_or_default()
}

#[test]
fn a_logging_program_gets_output_and_errors_and_ends_with_its_process() {
    let node = with_logger("logging-binary");
    let uri = "binary:///tmp/logger?mode=a&path=%2Fx";
    let script = "echo out; echo err >&2; exit 6";
    for runtime in ["io.containerd.runc.v2", RUNTIME] {
        let run = ["ctr", "run", "-d", "--runtime", runtime, "--log-uri", uri, IMAGE, "job", "sh", "-c", script];
        node.ok(&run);
        node.delete_stopped("job");
        node.ok(&["ctr", "container", "delete", "job"]);
        let read = || ["out", "err"].map(|kind| text(&node, &format!("/tmp/log-job.{kind}")));
        until_equal("all is written down", &["out\n".to_owned(), "err\n".to_owned()], read);
        let told = text(&node, "/tmp/log-job.told");
        let line = told.lines().next().expect("what it was told");
        // runc's shim tells arguments in any order.
        assert!(line.starts_with("default job ") && line.contains("mode a") && line.contains("path /x"), "{line}");
        if runtime == RUNTIME {
            assert_eq!(told, "default job mode a path /x\ndone\n");
        }
        node.ok(&["sh", "-c", "rm /tmp/log-job.*"]);
    }
    node.no_trace_is_left();
    assert_eq!(node.find_process(|command| command.contains("/tmp/logger")), None);
}

#[test]
fn an_exec_and_a_terminal_have_logging_programs_too() {
    let node = with_logger("logging-exec");
    let uri = "binary:///tmp/logger";
    node.run_cpu_job("job");
    let exec = ["ctr", "task", "exec", "-d", "--exec-id", "e1", "--log-uri", uri, "job"];
    node.ok(&[&exec[..], &["sh", "-c", "echo said; echo wrong >&2"]].concat());
    until_equal("all is written down", &["said\n".to_owned(), "wrong\n".to_owned()], || {
        ["out", "err"].map(|kind| text(&node, &format!("/tmp/log-e1.{kind}")))
    });
    let shim = node.task_service("job");
    shim.exec_with("tty", &["sh", "-c", "test -t 1 && echo terminal"], "", uri, true).expect("exec");
    shim.start("tty").expect("start");
    assert_eq!(shim.wait("tty"), Ok(0));
    until_equal("all is written down", &"terminal\r\n".to_owned(), || text(&node, "/tmp/log-tty.out"));
}

#[test]
fn a_log_file_is_made_and_grows() {
    let node = Machine::start("logging-file", "none");
    let uri = "file:///tmp/new/folder/job.log";
    let run = |script: &str| {
        node.ok(&["ctr", "run", "-d", "--runtime", RUNTIME, "--log-uri", uri, IMAGE, "job", "sh", "-c", script]);
        node.delete_stopped("job");
        node.ok(&["ctr", "container", "delete", "job"]);
    };
    let log = "/tmp/new/folder/job.log";
    run("echo one");
    assert_eq!(text(&node, log), "one\n");
    run("echo two >&2");
    assert_eq!(text(&node, log), "one\ntwo\n");
    node.run_cpu_job("runs");
    node.ok(&["ctr", "task", "exec", "-d", "--exec-id", "e", "--log-uri", uri, "runs", "echo", "three"]);
    until_equal("all is written down", &"one\ntwo\nthree\n".to_owned(), || text(&node, log));
    let shim = node.task_service("runs");
    shim.exec_with("tty", &["echo", "four"], "", uri, true).expect("exec");
    shim.start("tty").expect("start");
    until_equal("all is written down", &"one\ntwo\nthree\nfour\r\n".to_owned(), || text(&node, log));
}

#[test]
fn a_program_that_is_not_there_and_an_unknown_scheme_are_refused() {
    let node = Machine::start("logging-bad", "none");
    let before = node.store();
    for (uri, word) in [("binary:///nowhere", "UNAVAILABLE"), ("npipe:///tmp/x", "USAGE"), ("file:///proc/x", "FILE")] {
        let run = ["ctr", "run", "-d", "--runtime", RUNTIME, "--log-uri", uri, IMAGE, "job", "true"];
        let done = node.attempt(&run);
        assert!(!done.status.success() && done.stderr.contains(word), "{}", node.tell(&run, &done));
        node.attempt(&["ctr", "container", "delete", "job"]);
    }
    node.store_becomes(&before);
}

/// A FIFO on a node, open for as long as the test wants.
fn fifo(node: &Machine, path: &str) -> std::fs::File {
    node.ok(&["mkfifo", path]);
    let both = std::fs::OpenOptions::new().read(true).write(true).open(node.root_path(path));
    both.expect("open a FIFO")
}

#[test]
fn what_is_typed_reaches_an_exec_through_a_terminal_and_through_pipes() {
    let node = Machine::start("logging-typed", "none");
    node.run_cpu_job("job");
    let shim = node.task_service("job");
    let (mut input, output) = (fifo(&node, "/tmp/in"), fifo(&node, "/tmp/out"));
    let mut lines = BufReader::new(output).lines();
    let mut line = || lines.next().expect("a line").expect("text");

    shim.exec_with(
        "tty",
        &["sh", "-c", "echo ready; read word; busybox stty size; exit 9"],
        "/tmp/in",
        "/tmp/out",
        true,
    )
    .expect("exec");
    shim.start("tty").expect("start");
    assert_eq!(line(), "ready");
    shim.resize("tty", 132, 43).expect("resize");
    input.write_all(b"typed\n").expect("type");
    // The terminal shows what is typed.
    assert_eq!([line(), line()], ["typed", "43 132"]);
    assert_eq!(shim.wait("tty"), Ok(9));
    assert_eq!(shim.delete("tty"), Ok(9));

    // Once containerd has closed its end and says so, the process has read all there is.
    shim.exec_with("cat", &["cat"], "/tmp/in", "/tmp/out", false).expect("exec");
    shim.start("cat").expect("start");
    input.write_all(b"one\n").expect("write");
    assert_eq!(line(), "one");
    drop(input);
    shim.close_input("cat").expect("close");
    assert_eq!(shim.wait("cat"), Ok(0));
}
