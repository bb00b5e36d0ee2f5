//! Saves and restores under unusual conditions: a tight memory limit, an old CRIU, requests and images that this
//! version does not know.

use baton_fault::Code;
use baton_tests::image::{MANIFEST, descriptor};
use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::Machine;
use baton_tests::saving::Before;

/// Saves the job and ends it; its container is gone afterwards.
fn save_and_end(node: &Machine, options: &[&str]) -> String {
    let reference = node.reference("1");
    let mut line = vec!["baton", "save", "job", &reference, "--stop"];
    line.extend(options);
    node.ok(&line);
    node.delete_stopped("job");
    node.ok(&["ctr", "container", "delete", "job"]);
    reference
}

/// Less than the job's memory on the card, and enough for what it has in the host's.
const LIMIT: u64 = 30_000_000;

fn memory_limit(node: &Machine) -> u64 {
    let script = "cat /sys/fs/cgroup/memory/default/job/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/default/job/memory.max";
    node.ok(&["sh", "-c", script]).trim().parse().expect("a limit")
}

#[test]
fn a_memory_limit_below_the_gpu_memory_is_kept_and_kills_nobody() {
    let (a, b) = (Machine::start("limit-a", "h100"), Machine::start("limit-b", "h100"));
    let limit = &LIMIT.to_string();
    let run = ["--memory-limit", limit, "--env", "NVIDIA_VISIBLE_DEVICES=0"];
    a.run_detached(&run, IMAGE, "job", &["/counter", "--memory", "64M"]);
    let before = a.first_status("job");
    // The kernel counts in pages.
    let kept = LIMIT / 4096 * 4096;
    assert_eq!(memory_limit(&a), kept);
    a.save("job", &a.reference("0"));
    assert_eq!(memory_limit(&a), kept, "after a save");
    let saved = a.status("job");
    let reference = &save_and_end(&a, &["--push"]);
    b.ok(&["ctr", "image", "pull", reference]);
    b.run_detached(&run[..2], reference, "job", &[]);
    assert_eq!(memory_limit(&b), kept, "after a restore");
    let after = b.status("job");
    assert!(after.step >= saved.step && saved.step >= before.step, "{} < {}", after.step, saved.step);
    assert_eq!(after.memory, 64 << 20);
    b.wait_for_step("job", after.step + 10);
    assert_eq!(b.task_state("job"), "RUNNING");
}

#[test]
fn an_old_criu_is_refused_before_anything_is_touched() {
    let node = Machine::start("old-criu", "h100");
    node.write("/etc/baton/config.toml", "[driver]\nroot = \"/run/nvidia/driver\"\n[save]\nlock-timeout-s = 1\n");
    node.run_job("job", &[]);
    let reference = &save_and_end(&node, &[]);
    node.write("/usr/local/sbin/criu", "#!/bin/sh\necho Version: 4.0\n");
    node.ok(&["chmod", "755", "/usr/local/sbin/criu"]);
    // The first time containerd unpacks the image, which stays so.
    let run = ["ctr", "run", "--rm", "--runtime", RUNTIME, reference, "again"];
    let line = node.refused(&run, Code::CriuVersion);
    assert!(line.contains("4.0") && line.contains("4.2"), "{line}");
    let store = node.store();
    node.refused(&run, Code::CriuVersion);
    node.store_becomes(&store);
    node.no_trace_is_left();

    node.run_job("job", &[]);
    let (before, store) = (Before::note(&node, "job"), node.store());
    // The first lock that the driver is asked for hangs: whoever asks uses this up.
    node.order_hardware("lock-hang=1");
    let line = node.refused(&["baton", "save", "job", &node.reference("2")], Code::CriuVersion);
    assert!(line.contains("4.0") && line.contains("4.2"), "{line}");
    assert!(!node.journal("job").exists());
    before.goes_on(&node);
    node.store_becomes(&store);

    node.ok(&["rm", "/usr/local/sbin/criu"]);
    node.refused(&["baton", "save", "job", &node.reference("2")], Code::CrLockTimeout);
    node.save("job", &node.reference("2"));
}

#[test]
fn gpu_state_is_not_restored_from_a_folder_and_nothing_is_left_running() {
    let node = Machine::start("by-folder", "h100");
    node.run_job("job", &["--memory", "4M"]);
    let reference = "localhost/by-folder/gpu:1";
    node.ok(&["ctr", "container", "checkpoint", "--task", "--rw", "--image", "job", reference]);
    node.ok(&["ctr", "task", "kill", "-s", "SIGKILL", "job"]);
    node.delete_stopped("job");
    node.ok(&["ctr", "container", "delete", "job"]);
    node.refused(&["ctr", "container", "restore", "--live", "--rw", "again", reference], Code::CrUnsupported);
    assert_ne!(node.task_state("again"), "RUNNING");
    // What `ctr` made before it asked for the start stays until it is told to remove it.
    node.attempt(&["ctr", "task", "delete", "--force", "again"]);
    node.no_trace_is_left();
    node.cards_are_free();
}

#[test]
fn annotations_are_acted_on_or_refused() {
    let node = Machine::start("annotated", "h100x2");
    let store = node.store();
    for asked in ["io.baton.sharing=mps", "io.baton.pause=freeze", "io.baton.restore=localhost/x:1", "io.baton.frob=1"]
    {
        let run = ["ctr", "run", "--rm", "--runtime", RUNTIME, "--annotation", asked, IMAGE, "job"];
        let line = node.refused(&run, Code::RequestSyntax);
        assert!(line.contains(asked), "{line}");
    }
    node.store_becomes(&store);

    node.run_detached(&["--annotation", "io.baton.devices=1"], IMAGE, "job", &["/counter", "--memory", "8M"]);
    let status = node.first_status("job");
    let cards = node.cards();
    assert_eq!((status.gpu.as_ref(), status.memory), (Some(&cards[1].uuid), 8 << 20));
    assert_eq!(cards[0].users, []);

    // The image's own command asks for no additional memory: only what is restored has it.
    let reference = &save_and_end(&node, &[]);
    for (options, memory) in [(&[][..], 8 << 20), (&["--annotation", "io.baton.restore=never"], 0)] {
        let options = [&["--env", "NVIDIA_VISIBLE_DEVICES=0"], options].concat();
        node.run_detached(&options, reference, "again", &[]);
        let status = node.first_status("again");
        assert_eq!((status.memory, status.gpu), (memory, Some(cards[0].uuid.clone())), "{options:?}");
        node.ok(&["ctr", "task", "kill", "-s", "SIGKILL", "again"]);
        node.delete_stopped("again");
        node.ok(&["ctr", "container", "delete", "again"]);
    }
}

#[test]
fn a_checkpoint_that_hides_gpu_state_of_its_processes_starts_nothing() {
    let node = Machine::start("forged-gpu", "h100");
    node.run_job("job", &[]);
    let good = &save_and_end(&node, &[]);
    let [whole] = <[String; 1]>::try_from(node.blobs(good, MANIFEST)).expect("one manifest");
    let mut manifest: serde_json::Value = serde_json::from_slice(&node.blob(&whole)).expect("a manifest");
    for process in manifest["processes"].as_array_mut().expect("processes") {
        process.as_object_mut().expect("a process").remove("gpu");
    }
    let forged = manifest.to_string().into_bytes();
    node.forge(good, "localhost/forged/hidden:1", |layers| {
        for layer in layers.iter_mut().filter(|layer| layer["mediaType"] == MANIFEST) {
            *layer = descriptor(MANIFEST, &forged);
        }
        vec![forged]
    });
    let store = node.store();
    let run = ["ctr", "run", "--rm", "--runtime", RUNTIME, "localhost/forged/hidden:1", "forged"];
    node.refused(&run, Code::RestoreState);
    node.store_becomes(&store);
    node.no_trace_is_left();
    node.cards_are_free();
    node.run_detached(&[], good, "good", &[]);
    node.status("good");
}

#[test]
fn layers_under_a_checkpoint_stay_unpacked_while_it_exists() {
    let node = Machine::start("kept-layers", "h100");
    node.run_job("job", &[]);
    let reference = &save_and_end(&node, &[]);
    node.run_detached(&[], reference, "job", &[]);
    node.first_status("job");
    let info: serde_json::Value =
        serde_json::from_str(&node.ok(&["ctr", "snapshot", "info", "job"])).expect("a snapshot");
    let under = info["Parent"].as_str().expect("a parent").to_owned();
    // The name goes on to the new image, so that nothing but that holds the layers of the old one.
    assert_eq!(&save_and_end(&node, &[]), reference);
    // A removal that waits for the collector.
    node.ok(&["ctr", "image", "tag", IMAGE, "localhost/spare:1"]);
    node.ok(&["ctr", "image", "rm", "--sync", "localhost/spare:1"]);
    node.ok(&["ctr", "snapshot", "info", &under]);
    node.run_detached(&[], reference, "job", &[]);
    node.first_status("job");
}
