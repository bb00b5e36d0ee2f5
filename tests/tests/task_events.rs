//! The events of a task come in their documented order, each once.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::Machine;
use baton_tests::until::{until, until_equal};

/// `ctr events`, from now on.
struct Events {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Events {
    fn listen(node: &Machine) -> Events {
        let mut child = node
            .command(["timeout", "--foreground", "90", "ctr", "events"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("ctr events");
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let (from, to) = (BufReader::new(child.stdout.take().expect("its output")), lines.clone());
        std::thread::spawn(move || {
            for line in from.lines().map_while(Result::ok) {
                to.lock().expect("the lines").push(line);
            }
        });
        let events = Events { child, lines };
        // It listens once it hears of something.
        until("events are heard", || {
            node.ok(&["ctr", "leases", "create", "--id", "heard"]);
            node.ok(&["ctr", "leases", "delete", "heard"]);
            node.attempt(&["ctr", "namespaces", "create", "heard"]);
            node.attempt(&["ctr", "namespaces", "remove", "heard"]);
            (!events.lines.lock().expect("the lines").is_empty()).then_some(())
        });
        events
    }

    /// What was said of tasks so far: the last part of the topic, and which exec it was about.
    fn of_tasks(&self) -> Vec<String> {
        let lines = self.lines.lock().expect("the lines");
        let event = |line: &String| {
            let (_, rest) = line.split_once(" /tasks/")?;
            let (topic, body) = rest.split_once(' ')?;
            let body: serde_json::Value = serde_json::from_str(body).ok()?;
            let id = if topic == "exit" { &body["id"] } else { &body["exec_id"] };
            Some(match id.as_str() {
                Some(id) => format!("{topic} {id}"),
                None => topic.to_owned(),
            })
        };
        lines.iter().filter_map(event).collect()
    }

    fn are(&self, wanted: &[&str]) {
        let wanted: Vec<String> = wanted.iter().map(|word| (*word).to_owned()).collect();
        until_equal("all events have come", &wanted, || self.of_tasks());
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_life_is_told_in_order() {
    let node = Machine::start("events-life", "none");
    let events = Events::listen(&node);
    node.run_detached(&[], IMAGE, "job", &["/counter", "--cpu"]);
    node.ok(&["ctr", "task", "exec", "--exec-id", "e", "job", "true"]);
    node.ok(&["ctr", "task", "pause", "job"]);
    node.ok(&["ctr", "task", "resume", "job"]);
    node.ok(&["ctr", "task", "checkpoint", "--image-path", "/tmp/images", "job"]);
    node.ok(&["ctr", "task", "kill", "-s", "SIGKILL", "job"]);
    node.delete_stopped("job");
    events.are(&[
        "create",
        "start",
        "exec-added e",
        "exec-started e",
        "exit e",
        "paused",
        "resumed",
        "paused",
        "checkpointed",
        "resumed",
        "exit job",
        "delete",
    ]);
}

#[test]
fn the_end_of_the_first_process_is_told_last() {
    let node = Machine::start("events-last", "none");
    let events = Events::listen(&node);
    node.run_detached(&[], IMAGE, "job", &["/counter", "--cpu"]);
    let shim = node.task_service("job");
    for exec in ["a", "b"] {
        shim.exec(exec, &["sleep", "1000"]).expect("exec");
        shim.start(exec).expect("start");
    }
    node.ok(&["ctr", "task", "kill", "-s", "SIGKILL", "job"]);
    node.delete_stopped("job");
    until("all has been told", || events.of_tasks().contains(&"delete".to_owned()).then_some(()));
    let mut told = events.of_tasks();
    let ends = told.split_off(6);
    assert_eq!(told, ["create", "start", "exec-added a", "exec-started a", "exec-added b", "exec-started b"]);
    assert_eq!(ends[2..], ["exit job", "delete"], "{ends:?}");
}

#[test]
fn a_lack_of_memory_is_told_once_and_before_the_end() {
    let node = Machine::start("events-oom", "none");
    if !node.root_path("/sys/fs/cgroup/memory/cgroup.event_control").exists() {
        eprintln!("skipped: the machine has no memory controller of version 1");
        return;
    }
    let events = Events::listen(&node);
    let greedy = ["dd", "if=/dev/zero", "of=/dev/null", "bs=200000000"];
    let limited = ["--memory-limit", "20000000"];
    node.run_detached(&limited, IMAGE, "job", &greedy);
    node.delete_stopped("job");
    events.are(&["create", "start", "oom", "exit job", "delete"]);
    // Of a process that is not the first one, too: the first one goes on.
    node.run_detached(&limited, IMAGE, "other", &["sleep", "1000"]);
    let done = node.in_container("other", &greedy);
    assert!(!done.status.success(), "{done:?}");
    let told = until("it is told", || {
        let told = events.of_tasks().split_off(5);
        told.iter().any(|event| event.starts_with("exit")).then_some(told)
    });
    assert!(told.contains(&"oom".to_owned()), "{told:?}");
    assert_eq!(node.task_state("other"), "RUNNING");
}

#[test]
fn nothing_that_a_container_started_among_the_processes_of_the_node_outlives_it() {
    let node = Machine::start("events-host-pids", "none");
    for runtime in ["io.containerd.runc.v2", RUNTIME] {
        let run = ["ctr", "run", "--rm", "--runtime", runtime, "--with-ns", "pid:/proc/1/ns/pid", IMAGE, "job"];
        let done = node.attempt(&[&run[..], &["sh", "-c", "sleep 4321 & exit 5"]].concat());
        assert_eq!(done.status.code(), Some(5), "{done:?}");
        until("what it left has been ended", || {
            node.find_process(|command| command == "sleep 4321").is_none().then_some(())
        });
    }
    node.no_trace_is_left();
}
