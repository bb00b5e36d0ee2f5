//! A job is saved while it goes on, and again to stop it (point 3).

use baton_tests::machine::Machine;

#[test]
fn a_job_is_saved_while_it_counts_and_again_to_stop_it() {
    let (a, b) = (Machine::start("save-a", "h100x2"), Machine::start("save-b", "none"));
    let (first, second) = (&a.reference("1"), &a.reference("2"));
    let own = a.card().uuid;
    let before = a.run_job("job", &["--memory", "8M"]);

    let said = a.ok(&["baton", "save", "job", first, "--push"]);
    assert!(said.contains("goes on") && said.contains(first.as_str()), "{said}");
    let between = a.status("job");
    assert!(between.step > before.step, "it stands still: {between:?}");
    let later = a.wait_for_step("job", between.step + 10);
    assert_eq!(later.gpu, Some(own));
    assert_eq!(a.task_state("job"), "RUNNING");

    let said = a.ok(&["baton", "save", "job", second, "--push", "--stop"]);
    assert!(said.contains("stopped"), "{said}");
    assert_eq!(a.task_state("job"), "STOPPED");
    let card = a.card();
    assert_eq!((card.used, card.users), (0, vec![]), "the card is not free");

    for reference in [first, second] {
        b.ok(&["ctr", "image", "pull", reference]);
        let known = b.ok(&["baton", "inspect", reference]);
        assert!(known.contains("NVIDIA H100 80GB HBM3"), "{known}");
    }
    let ended = a.attempt(&["ctr", "task", "delete", "job"]);
    assert!(ended.stderr.contains("137"), "{ended:?}");
    assert!(a.ok(&["ctr", "leases", "ls", "-q"]).is_empty());
    assert!(a.ok(&["ls", "/var/lib/baton/staging"]).is_empty());
}

#[test]
fn two_saves_at_once_both_end_well() {
    let node = Machine::start("save-twice", "h100");
    node.run_job("job", &["--memory", "8M"]);
    let references = ["1", "2"].map(|tag| node.reference(tag));
    let saves = references.each_ref().map(|reference| node.begin(&["baton", "save", "job", reference]));
    for save in saves {
        let done = node.end(save);
        assert!(done.status.success(), "{done:?}");
    }
    let step = node.status("job").step;
    node.wait_for_step("job", step + 10);
    for reference in &references {
        node.ok(&["baton", "inspect", reference]);
    }
}

#[test]
fn a_checkpoint_is_an_ordinary_image_to_a_node_without_baton() {
    let node = Machine::start("save-plain", "h100");
    let reference = &node.reference("1");
    node.run_job("job", &[]);
    assert!(node.in_container("job", &["sh", "-c", "echo kept > /kept"]).status.success());
    node.ok(&["baton", "save", "job", reference, "--push"]);
    node.ok(&["ctr", "image", "rm", reference]);
    node.ok(&["ctr", "image", "pull", reference]);
    let plain = ["ctr", "run", "--rm", "--runtime", "io.containerd.runc.v2", reference, "plain", "/bin/cat", "/kept"];
    assert_eq!(node.ok(&plain), "kept\n");
}
