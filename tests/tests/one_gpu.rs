//! A container gets the GPU that it was given and no other (point 2).

use std::process::Command;

use baton_fault::Code;
use baton_tests::job::IMAGE;
use baton_tests::machine::Machine;

/// Makes a device node in a running container from outside, where nothing forbids it.
fn node_from_outside(node: &Machine, pid: u32, path: &str, minor: u32) {
    let script = format!("mknod -m 666 /proc/{pid}/root{path} c 195 {minor}");
    node.ok(&["sh", "-c", &script]);
}

#[test]
fn a_job_counts_on_its_card_and_cannot_open_the_other() {
    let node = Machine::start("one-gpu", "h100x2");
    let cards = node.cards();
    let status = node.run_job("job", &[]);
    assert_eq!(status.gpu.as_ref(), Some(&cards[0].uuid));
    // The checksum is compared with what it must be at each question; after 100 steps it is this.
    node.wait_for_step("job", 100);
    let (_, pid) = node.task("job").expect("a task");

    let devices = node.in_container("job", &["sh", "-c", "ls /dev | grep nvidia"]);
    let mut names: Vec<&str> = devices.stdout.lines().collect();
    names.sort_unstable();
    assert!(names.contains(&"nvidia0") && names.contains(&"nvidiactl"), "{names:?}");
    assert!(!names.contains(&"nvidia1"), "{names:?}");

    node_from_outside(&node, pid, "/dev/own", cards[0].minor);
    node_from_outside(&node, pid, "/dev/other", cards[1].minor);
    // No driver stands behind the number, so an open that is allowed ends with ENXIO.
    let own = node.in_container("job", &["cat", "/dev/own"]);
    assert!(own.stderr.contains("No such device or address"), "{own:?}");
    let other = node.in_container("job", &["cat", "/dev/other"]);
    assert!(other.stderr.contains("Operation not permitted"), "{other:?}");

    let users: Vec<u32> = node.cards()[0].users.iter().map(|user| user.pid).collect();
    assert_eq!(users, [pid]);
    assert_eq!(node.cards()[1].used, 0);
}

#[test]
fn the_line_after_a_hundred_steps_is_the_one_known_beforehand() {
    let node = Machine::start("one-gpu-line", "h100");
    let mut command: Command = node.command([
        "timeout",
        "60",
        "ctr",
        "run",
        "--rm",
        "--runtime",
        "io.containerd.baton.v2",
        "--env",
        "NVIDIA_VISIBLE_DEVICES=0",
        IMAGE,
        "job",
        "/counter",
        "--interval-ms",
        "1",
    ]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("ctr run");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("its output")));
    assert_eq!(lines.next().expect("a line").expect("text"), "step 100 checksum 5abe7b211e1487d4");
    assert_eq!(lines.next().expect("a line").expect("text"), "step 200 checksum a69adb20246c46c5");
    node.ok(&["ctr", "task", "kill", "-s", "SIGKILL", "job"]);
    assert_eq!(child.wait().expect("its end").code(), Some(137));
}

#[test]
fn a_container_that_asks_for_no_gpu_gets_none() {
    let node = Machine::start("one-gpu-none", "h100");
    node.run_cpu_job("job");
    let (_, pid) = node.task("job").expect("a task");
    node_from_outside(&node, pid, "/dev/some", 0);
    let opened = node.in_container("job", &["cat", "/dev/some"]);
    assert!(opened.stderr.contains("Operation not permitted"), "{opened:?}");
    assert!(!node.in_container("job", &["sh", "-c", "ls /dev"]).stdout.contains("nvidia"));
}

#[test]
fn a_gpu_that_is_not_there_is_refused_and_nothing_is_left() {
    let node = Machine::start("one-gpu-wrong", "h100");
    let before = node.store();
    for (asked, code) in [("7", Code::DeviceUnknown), ("0,frob", Code::RequestSyntax)] {
        let env = format!("NVIDIA_VISIBLE_DEVICES={asked}");
        let run = ["ctr", "run", "--rm", "--runtime", "io.containerd.baton.v2", "--env", &env, IMAGE, "job"];
        let line = node.refused(&run, code);
        assert!(line.contains(asked.trim_start_matches("0,")), "{line}");
        node.store_becomes(&before);
    }
}
