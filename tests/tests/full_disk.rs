//! A disk that is full while a container without a GPU is checkpointed: the container goes on, no part of a checkpoint is
//! left, the error names the disk, and once there is room the same command works.

use baton_fault::Code;
use baton_nodes::NodeOptions;
use baton_tests::job::Status;
use baton_tests::machine::Machine;

/// Where the small disk is mounted.
const DISK: &str = "/tmp/small";
/// Sizes of the disk: one on which nothing fits any more, and one that fills in the middle of the images.
const SIZES: [&str; 2] = ["4k", "128k"];

fn mount(node: &Machine, size: &str) {
    node.ok(&["sh", "-c", &format!("mkdir -p {DISK} && mount -t tmpfs -o size={size} none {DISK} && mkdir {DISK}/to")]);
}

fn grow(node: &Machine) {
    node.ok(&["mount", "-o", "remount,size=64m", DISK]);
}

/// Nothing on the disk is a part of an image.
fn nothing_is_left(node: &Machine) {
    assert_eq!(node.ok(&["find", DISK, "(", "-name", "*.img", "-o", "-name", "*.json", ")"]), "");
}

fn goes_on(node: &Machine, before: &Status) {
    assert_eq!(node.task_state("job"), "RUNNING");
    let now = node.status("job");
    assert!(now.step >= before.step, "it fell back from {} to {}", before.step, now.step);
    node.wait_for_step("job", now.step + 5);
}

#[test]
fn by_ctr_into_a_folder() {
    let node = Machine::start("full-folder", "none");
    node.run_cpu_job("job");
    let store = node.store();
    for size in SIZES {
        mount(&node, size);
        let images = format!("{DISK}/to/images");
        let line = ["ctr", "task", "checkpoint", "--image-path", &images, "job"];
        let before = node.status("job");
        let said = node.refused(&line, Code::NoSpace);
        assert!(said.contains(DISK) && said.contains("make room"), "{said}");
        nothing_is_left(&node);
        node.store_becomes(&store);
        goes_on(&node, &before);
        grow(&node);
        node.ok(&line);
        assert!(node.ok(&["ls", &images]).contains("pages-1.img"));
        goes_on(&node, &before);
        node.ok(&["umount", DISK]);
        // Its name is the second in which it was made, and there is to be another.
        let name = node.ok(&["sh", "-c", "ctr image ls -q | grep /checkpoint/"]);
        node.ok(&["ctr", "image", "rm", "--sync", name.trim()]);
    }
}

#[test]
fn by_hand() {
    let node = Machine::start("full-hand", "none");
    node.bundle("/tmp/b", &["/counter", "--cpu", "--socket", "/tmp/s"], |_| {});
    node.ok(&["sh", "-c", "baton run --detach --bundle /tmp/b job </dev/null >/dev/null 2>&1"]);
    let ask = |words: &[&str]| {
        let head = ["baton", "exec", "job", "/counter"];
        Status::checked(&node.ok(&[&head[..], words, &["--socket", "/tmp/s"]].concat()))
    };
    let first = |id: &str| {
        let line = ["baton", "exec", id, "/counter", "wait", "5", "--socket", "/tmp/s"];
        baton_tests::until::until("it counts", || node.attempt(&line).status.success().then_some(()));
    };
    first("job");
    for size in SIZES {
        mount(&node, size);
        let images = format!("{DISK}/to/images");
        let before = ask(&["status"]);
        let line = ["baton", "checkpoint", "--image-path", &images, "job"];
        let said = node.refused(&line, Code::NoSpace);
        assert!(said.contains("checkpoint container job") && said.contains(DISK), "{said}");
        nothing_is_left(&node);
        assert!(ask(&["wait", &(before.step + 5).to_string()]).step > before.step);
        grow(&node);
        node.ok(&line);
        let restore = format!("baton restore --detach --bundle /tmp/b --image-path {images} job");
        node.ok(&["sh", "-c", &format!("{restore} </dev/null >/dev/null 2>&1")]);
        assert!(ask(&["status"]).step > before.step);
        node.ok(&["umount", DISK]);
    }
}

#[test]
fn by_ctr_as_an_image() {
    let node = Machine::with(NodeOptions::new("full-image").cards("none").disk(256 << 20));
    node.run_cpu_job("job");
    let checkpoint = |name: &'static str, options: &[&'static str]| {
        let head = ["ctr", "container", "checkpoint", "--task", "--image"];
        [&head[..], options, &["job", name]].concat()
    };
    // One that succeeds, so that all folders are there.
    node.ok(&checkpoint("localhost/full/image:0", &["--rw"]));
    let (before, store) = (node.status("job"), node.store());
    node.fill_var_lib();
    for options in [&["--rw"][..], &[]] {
        let done = node.attempt(&checkpoint("localhost/full/image:1", options));
        assert!(!done.status.success() && done.stderr.contains("no space left on device"), "{done:?}");
        goes_on(&node, &before);
    }
    node.ok(&["sh", "-c", "rm /var/lib/filling*"]);
    node.store_becomes(&store);
    node.ok(&checkpoint("localhost/full/image:1", &["--rw"]));
    goes_on(&node, &before);
    node.ok(&["ctr", "container", "restore", "--live", "--rw", "again", "localhost/full/image:1"]);
    assert!(node.status("again").step >= before.step);
}
