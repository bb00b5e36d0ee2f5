//! A lock of a file, of either kind, is still held after a checkpoint and a restore: nobody else takes it meanwhile.

use baton_fault::Code;
use baton_tests::job::IMAGE;
use baton_tests::machine::Machine;
use baton_tests::until::until;

const KINDS: [&str; 2] = ["posix", "flock"];

/// Whether the lock is held by another than the process that `execute` runs.
fn is_held(kind: &str, execute: impl Fn(&[&str]) -> baton_nodes::Output) -> bool {
    let file = format!("/tmp/{kind}");
    let done = execute(&["/counter", "lock", kind, &file]);
    match (done.status.code(), done.stderr.contains("is locked by another")) {
        (Some(0), _) => false,
        (Some(1), true) => true,
        _ => panic!("{done:?}"),
    }
}

#[test]
fn by_hand_they_are_saved_where_that_is_asked_for_and_then_always_come_back() {
    let node = Machine::start("locks-hand", "none");
    let run = |words: &str| node.ok(&["sh", "-c", &format!("baton {words} </dev/null >/dev/null 2>&1")]);
    for kind in KINDS {
        let (file, bundle) = (format!("/tmp/{kind}"), format!("/tmp/b-{kind}"));
        let images = format!("/tmp/i-{kind}");
        node.bundle(&bundle, &["/counter", "hold", kind, &file], |_| {});
        run(&format!("run --detach --bundle {bundle} job"));
        let held_in = |id: &str| is_held(kind, |words| node.attempt(&[&["baton", "exec", id], words].concat()));
        until("the lock is held", || held_in("job").then_some(()));

        let checkpoint = ["baton", "checkpoint", "--image-path", &images];
        let said = node.refused(&[&checkpoint[..], &["job"]].concat(), Code::Criu);
        assert!(said.contains("file locks") && said.contains("; ask for it with --file-locks"), "{said}");
        assert!(held_in("job"), "a refused checkpoint changes nothing");

        node.ok(&["rm", "-rf", &images]);
        node.ok(&[&checkpoint[..], &["--file-locks", "job"]].concat());
        for options in ["", "--file-locks"] {
            run(&format!("restore --detach {options} --bundle {bundle} --image-path {images} again"));
            assert!(held_in("again"), "{kind} is lost by restore {options}");
            node.ok(&["baton", "delete", "--force", "again"]);
        }
    }
}

#[test]
fn through_containerd_they_need_no_asking() {
    let node = Machine::start("locks-ctr", "none");
    for kind in KINDS {
        let (file, reference) = (format!("/tmp/{kind}"), format!("localhost/locks/{kind}:1"));
        node.run_detached(&[], IMAGE, kind, &["/counter", "hold", kind, &file]);
        let held_in = |id: &str| is_held(kind, |words| node.in_container(id, words));
        until("the lock is held", || held_in(kind).then_some(()));
        node.ok(&["ctr", "container", "checkpoint", "--task", "--rw", "--image", kind, &reference]);
        assert!(held_in(kind), "the source keeps it");
        let again = format!("{kind}-again");
        node.ok(&["ctr", "container", "restore", "--live", "--rw", &again, &reference]);
        assert!(held_in(&again), "{kind} is lost");
    }
}
