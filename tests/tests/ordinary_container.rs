//! A container without a GPU is an ordinary container.

use baton_tests::job::IMAGE;
use baton_tests::machine::Machine;
use baton_tests::ordinary;
use baton_tests::until::until;

#[test]
fn exit_statuses_and_output_come_out() {
    ordinary::output_comes_out(&Machine::start("ordinary-exit", "none"));
}

#[test]
fn what_is_typed_reaches_it_and_its_end_ends_it() {
    ordinary::input_reaches_it(&Machine::start("ordinary-stdin", "none"));
}

#[test]
fn it_is_executed_in_paused_listed_measured_killed_and_deleted() {
    let node = Machine::start("ordinary-life", "none");
    ordinary::it_lives_and_dies(&node);
    ordinary::it_is_measured(&node);
}

#[test]
fn it_has_a_terminal() {
    ordinary::it_has_a_terminal(&Machine::start("ordinary-terminal", "none"));
}

#[test]
fn it_is_what_runc_makes_of_it() {
    ordinary::it_is_what_runc_makes_of_it(&Machine::start("ordinary-runc", "none"), &[]);
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

#[test]
fn what_is_mounted_later_shows_where_the_volume_says_so() {
    let node = Machine::start("ordinary-later", "none");
    let script =
        "mkdir -p /srv/volume/later && mount --bind /srv/volume /srv/volume && mount --make-shared /srv/volume";
    node.ok(&["sh", "-c", script]);
    let volume = |options| format!("type=bind,src=/srv/volume,dst=/volume,options=rbind:{options}");
    // As containerd's CRI has it: the root filesystem's propagation follows from the volumes'.
    for (id, root) in [("rprivate", "rslave"), ("rslave", "rslave"), ("rshared", "rshared")] {
        let options = ["--privileged", "--rootfs-propagation", root, "--mount", &volume(id)];
        node.run_detached(&options, IMAGE, id, &["/bin/sleep", "1000"]);
    }
    node.ok(&["sh", "-c", "mount -t tmpfs tmpfs /srv/volume/later && touch /srv/volume/later/new"]);
    for (id, seen) in [("rprivate", ""), ("rslave", "new\n"), ("rshared", "new\n")] {
        // ctr loses the output of a short program now and then.
        let listed = until("its answer", || {
            let said = node.in_container(id, &["sh", "-c", "ls /volume/later; echo end"]).stdout;
            (!said.is_empty()).then_some(said)
        });
        assert_eq!(listed, format!("{seen}end\n"), "{id}");
    }
    for (id, seen) in [("rslave", ""), ("rshared", "mine\n")] {
        let script = format!("cd /volume && mkdir {id} && mount -t tmpfs tmpfs {id} && touch {id}/mine");
        assert!(node.in_container(id, &["sh", "-c", &script]).status.success(), "{id}");
        assert_eq!(node.ok(&["ls", &format!("/srv/volume/{id}")]), seen, "{id}");
    }
}
