//! A saved job goes on on another node, on that node's card (point 4).

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use baton_tests::count::checksum_after;
use baton_tests::machine::Machine;

#[test]
fn a_job_saved_on_one_node_goes_on_on_another() {
    let a = Machine::start("restore-a", "h100x2");
    let b = Machine::start_unlike(&a, "restore-b", "h100");
    let reference = &a.reference("1");
    a.run_job("job", &["--memory", "8M"]);
    let before = a.wait_for_step("job", 250);
    a.ok(&["baton", "save", "job", reference, "--push", "--stop"]);
    b.ok(&["ctr", "image", "pull", reference]);
    assert_ne!(a.card().pci_bus_id, b.card().pci_bus_id);

    b.ok(&["ctr", "run", "-d", "--runtime", "io.containerd.baton.v2", reference, "job"]);
    let after = b.status("job");
    assert!(after.step >= before.step, "it began at {} though it had got to {}", after.step, before.step);
    assert_eq!(after.gpu, Some(b.card().uuid));
    assert_eq!(after.memory, 8 << 20);
    let later = b.wait_for_step("job", after.step + 20);
    assert_eq!(later.gpu, after.gpu);
    let users: Vec<u32> = b.card().users.iter().map(|user| user.pid).collect();
    assert_eq!(users, [b.task("job").expect("a task").1]);
    assert_eq!(a.card().users, []);
}

#[test]
fn what_a_restored_job_prints_is_heard_where_it_is_started() {
    let (a, b) = (Machine::start("restore-heard-a", "h100"), Machine::start("restore-heard-b", "h100"));
    let reference = &a.reference("1");
    a.run_job("job", &["--interval-ms", "2"]);
    let before = a.wait_for_step("job", 150);
    a.ok(&["baton", "save", "job", reference, "--push", "--stop"]);
    b.ok(&["ctr", "image", "pull", reference]);
    let mut child = b
        .command(["timeout", "60", "ctr", "run", "--rm", "--runtime", "io.containerd.baton.v2", reference, "job"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("ctr run");
    let mut last = before.step / 100;
    for line in BufReader::new(child.stdout.take().expect("its output")).lines().take(3) {
        let line = line.expect("text");
        let words: Vec<&str> = line.split(' ').collect();
        let ["step", step, "checksum", checksum] = words.as_slice() else { panic!("it printed {line:?}") };
        let step: u64 = step.parse().expect("a number");
        assert_eq!(*checksum, format!("{:016x}", checksum_after(step)));
        assert!(step / 100 > last, "step {step} after {}", last * 100);
        last = step / 100;
    }
    b.ok(&["ctr", "task", "kill", "-s", "SIGTERM", "job"]);
    assert_eq!(child.wait().expect("its end").code(), Some(143));
}

#[test]
fn a_restored_container_is_an_ordinary_one_and_can_be_saved_again() {
    let (a, b) = (Machine::start("restore-again-a", "h100"), Machine::start("restore-again-b", "h100"));
    let (first, second) = (&a.reference("1"), &a.reference("2"));
    a.run_job("job", &["--memory", "4M"]);
    a.ok(&["baton", "save", "job", first, "--push", "--stop"]);
    a.attempt(&["ctr", "task", "delete", "job"]);
    b.ok(&["ctr", "image", "pull", first]);
    b.run_detached(&[], first, "job", &[]);
    let there = b.status("job");

    assert_eq!(b.in_container("job", &["sh", "-c", "exit 9"]).status.code(), Some(9));
    b.ok(&["ctr", "task", "pause", "job"]);
    assert_eq!(b.task_state("job"), "PAUSED");
    b.ok(&["ctr", "task", "resume", "job"]);
    b.wait_for_step("job", there.step + 5);
    assert!(b.ok(&["ctr", "task", "ps", "job"]).contains(&b.task("job").expect("a task").1.to_string()));
    assert!(b.ok(&["ctr", "task", "metrics", "job"]).contains("pids.current"));

    let saved = b.status("job");
    b.ok(&["baton", "save", "job", second, "--push", "--stop"]);
    b.attempt(&["ctr", "task", "delete", "job"]);
    a.ok(&["ctr", "image", "pull", second]);
    a.run_detached(&[], second, "back", &[]);
    let back = a.status("back");
    assert!(back.step >= saved.step, "{} < {}", back.step, saved.step);
    assert_eq!(back.gpu, Some(a.card().uuid));

    a.ok(&["ctr", "task", "kill", "-s", "SIGTERM", "back"]);
    baton_tests::until::until("the job ends", || (a.task_state("back") == "STOPPED").then_some(()));
    let ended = a.attempt(&["ctr", "task", "delete", "back"]);
    assert!(ended.stderr.contains("143"), "{ended:?}");
    a.ok(&["ctr", "container", "delete", "back", "job"]);
    assert_eq!(a.card().used, 0);
}
