//! A container of a pod is checkpointed by the CRI, in both layouts, into an archive that others read and from which a
//! pod elsewhere goes on.

use baton_tests::cri::{BY_NAME, BY_PATH, Pod};
use baton_tests::job::IMAGE;
use baton_tests::machine::Machine;

/// What the archive of one container has at its top, beside the images in `checkpoint/`.
const ALWAYS: [&str; 3] = ["config.dump", "spec.dump", "rootfs-diff.tar"];
/// What containerd 2.1 and newer add.
const LATER: [&str; 3] = ["status.dump", "status", "container.log"];
/// The lines of containerd 2 that restore when a container is created from an archive.
const RESTORES: [u32; 3] = [1, 2, 3];
/// CRIU's log, of its work folder; containerd names one only to runtimes of runc's name, and 2.0 leaves the log behind.
const LOG: &str = "dump.log";
/// CRIU's statistics, from there too; 2.0 leaves them behind.
const STATISTICS: &str = "stats-dump";

/// Has the image of the job come from a registry, as images do in Kubernetes: containerd asks for it by that name again
/// when it restores. Its name.
fn pulled(node: &Machine) -> String {
    let image = node.reference("1");
    let ctr = |arguments: &[&str]| node.ok(&[&["ctr", "--namespace", "k8s.io", "image"], arguments].concat());
    ctr(&["tag", IMAGE, &image]);
    ctr(&["push", &image]);
    ctr(&["rm", "--sync", IMAGE, &image]);
    node.ok(&["crictl", "pull", &image]);
    image
}

/// Runs a pod with the job and checkpoints it: the pod, the job, the archive, and the job's step before.
fn checkpoint<'a>(node: &'a Machine, handler: &str, image: &str) -> (Pod<'a>, String, String, u64) {
    let pod = node.pod(handler, &format!("source-{handler}"));
    let job = pod.create("job", image, &["/counter", "--cpu"]);
    pod.start(&job);
    let before = pod.wait_for_step(&job, 30).step;
    let archive = format!("/var/lib/{handler}.tar");
    node.ok(&["crictl", "checkpoint", "--export", &archive, &job]);
    (pod, job, archive, before)
}

#[test]
fn the_container_goes_on_and_the_archive_is_read_by_others() {
    let node = Machine::start("cri-checkpoint", "none");
    let image = pulled(&node);
    for handler in [BY_PATH, BY_NAME] {
        let (pod, job, archive, before) = checkpoint(&node, handler, &image);
        let after = pod.status(&job).step;
        assert!(after >= before, "{after} < {before}");
        pod.wait_for_step(&job, after + 10);

        let files = node.ok(&["tar", "--list", "--file", &archive]);
        let has = |name: &str| files.lines().any(|line| line == name);
        let first = node.containerd() == (2, 0);
        for name in ALWAYS.into_iter().chain(LATER.into_iter().filter(|_| !first)) {
            assert!(has(name), "no {name} in {files}");
        }
        assert!(has("checkpoint/inventory.img") && has("checkpoint/pages-1.img"), "{files}");
        let deeper = files.lines().find(|line| line.matches('/').count() > 1);
        assert_eq!(deeper, None, "the images lie flat");
        let counted = handler == BY_PATH && !first;
        assert_eq!((has(LOG), has(STATISTICS)), (counted, counted), "{handler}: {files}");

        let shown = node.ok(&["checkpointctl", "show", &archive]);
        for word in ["job", &image, &job[..12], "containerd"] {
            assert!(shown.contains(word), "no {word} in {shown}");
        }
        // All but the statistics can be had of every archive.
        let what = if counted { "--all" } else { "--ps-tree" };
        let inspected = node.ok(&["checkpointctl", "inspect", what, &archive]);
        assert!(inspected.contains("[1]") && inspected.contains("counter"), "{inspected}");
        pod.remove();
    }
}

#[test]
fn a_pod_on_another_node_goes_on_from_the_archive() {
    let (source, target) = (Machine::start("cri-from", "none"), Machine::start("cri-to", "none"));
    if !RESTORES.contains(&source.containerd().1) {
        eprintln!("no restore by CreateContainer in this containerd");
        return;
    }
    let image = pulled(&source);
    for handler in [BY_PATH, BY_NAME] {
        let (_pod, job, archive, before) = checkpoint(&source, handler, &image);
        let bytes = std::fs::read(source.root_path(&archive)).expect("the archive");
        target.write(&archive, bytes);
        let pod = target.pod(handler, &format!("target-{handler}"));
        let again = pod.create("job", &archive, &[]);
        pod.start(&again);
        assert_eq!(pod.state(&again).0, "CONTAINER_RUNNING");
        let restored = pod.status(&again).step;
        assert!(restored >= before, "{restored} < {before}");
        // It is a container like any other.
        pod.wait_for_step(&again, restored + 10);
        target.ok(&["crictl", "checkpoint", "--export", "/var/lib/second.tar", &again]);
        target.ok(&["rm", "/var/lib/second.tar"]);
        target.ok(&["crictl", "stop", "--timeout", "0", &again]);
        assert_eq!(pod.end_of(&again), 137);
        pod.remove();
        source.ok(&["crictl", "stop", "--timeout", "0", &job]);
    }
}
