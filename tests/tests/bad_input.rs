//! Bad input: one line that says what, why and what to do, a code, an exit status that is not 0, nothing half-made.

use std::fs;

use baton_fault::Code;
use baton_tests::image::{self, MANIFEST, PAGES, STATE, descriptor};
use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::machine::{BIN, Machine};
use baton_tests::until::until;
use serde_json::json;

#[test]
fn the_operators_verbs_say_what_is_wrong() {
    let node = Machine::start("bad-operator", "h100");
    node.run_cpu_job("cpu");
    node.ok(&["ctr", "run", "-d", "--runtime", "io.containerd.runc.v2", IMAGE, "runc", "/counter", "--cpu"]);
    let before = node.store();
    let reference = "registry.test:5000/bad/job:1";
    for (command, code) in [
        (&["baton"][..], Code::Usage),
        (&["baton", "frob"], Code::Usage),
        (&["baton", "--frob"], Code::Usage),
        (&["baton", "save"], Code::Usage),
        (&["baton", "save", "cpu"], Code::Usage),
        (&["baton", "save", "--frob", "cpu", reference], Code::Usage),
        (&["baton", "inspect"], Code::Usage),
        (&["baton", "devices", "frob"], Code::Usage),
        (&["baton", "save", "nosuch", reference], Code::NotFound),
        (&["baton", "save", "-n", "elsewhere", "cpu", reference], Code::NotFound),
        (&["baton", "save", "runc", reference], Code::NotFound),
        (&["baton", "save", "cpu", reference], Code::NoGpu),
        (&["baton", "save", "cpu", "NOT A REFERENCE"], Code::Usage),
        (&["baton", "inspect", "registry.test:5000/none:1"], Code::NotFound),
        (&["baton", "inspect", IMAGE], Code::ImageNotCheckpoint),
        (&["baton", "inspect", "-a", "/nowhere", IMAGE], Code::Unavailable),
        (&["env", "BATON_CONFIG=/nowhere", "baton", "devices"], Code::File),
    ] {
        let done = node.attempt(command);
        let wanted = if code == Code::Usage { 2 } else { 1 };
        assert_eq!(done.status.code(), Some(wanted), "{}", node.tell(command, &done));
        node.refused(command, code);
    }
    node.store_becomes(&before);
    let cpu = node.status("cpu");
    node.wait_for_step("cpu", cpu.step + 5);
    let none = Machine::start("bad-operator-none", "none");
    for (root, code) in [("/nowhere", Code::File), ("/tmp", Code::DriverMissing)] {
        none.write("/etc/baton/config.toml", format!("[driver]\nroot = \"{root}\"\n"));
        none.refused(&["baton", "devices"], code);
    }
    none.write("/etc/baton/config.toml", "[driver]\nrot = \"/nowhere\"\n");
    none.refused(&["baton", "devices"], Code::Settings);
}

#[test]
fn the_runtimes_verbs_say_what_is_wrong() {
    let node = Machine::start("bad-runtime", "none");
    let before = node.store();
    for verb in ["start", "state", "pause", "resume", "kill", "delete", "ps"] {
        node.refused(&["baton", verb], Code::Usage);
        node.refused(&["baton", verb, "nosuch"], Code::NotFound);
        node.refused(&["baton", verb, "../../etc"], Code::Usage);
    }
    node.refused(&["baton", "exec", "nosuch", "true"], Code::NotFound);
    node.refused(&["baton", "checkpoint", "--image-path", "/tmp/images", "nosuch"], Code::NotFound);
    for verb in ["create", "run"] {
        node.refused(&["baton", verb, "--bundle", "/nowhere", "job"], Code::File);
        node.write("/tmp/bundle/config.json", "{\"ociVersion\": \"1.2.0\", \"pro");
        node.refused(&["baton", verb, "--bundle", "/tmp/bundle", "job"], Code::Bundle);
        fs::remove_file(node.root_path("/tmp/bundle/config.json")).expect("a file to remove");
        node.refused(&["baton", verb, "--bundle", "/tmp/bundle", "job"], Code::File);
    }
    node.refused(&["baton", "restore", "--bundle", "/nowhere", "--image-path", "/tmp", "job"], Code::File);
    node.store_becomes(&before);
    assert!(!node.root_path("/tmp/images").exists());
    assert!(!node.root_path("/run/baton/engine/job").exists());
}

#[test]
fn a_restore_from_no_images_leaves_nothing() {
    let node = Machine::start("bad-restore", "none");
    // A bundle that containerd made.
    node.run_cpu_job("job");
    node.ok(&["sh", "-c", "mkdir -p /tmp/bundle/rootfs /tmp/empty && cp /run/containerd/io.containerd.runtime.v2.task/default/job/config.json /tmp/bundle/"]);
    let before = node.store();
    node.refused(&["baton", "restore", "--bundle", "/tmp/bundle", "--image-path", "/nowhere", "other"], Code::File);
    let done = node.attempt(&["baton", "restore", "--bundle", "/tmp/bundle", "--image-path", "/tmp/empty", "other"]);
    assert!(!done.status.success());
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    node.store_becomes(&before);
    assert!(!node.root_path("/run/baton/engine/other").exists());
}

#[test]
fn what_runs_is_ended_by_force_though_its_state_cannot_be_read() {
    let node = Machine::start("bad-state", "none");
    node.bundle("/tmp/b", &["sleep", "1234"], |config| config["linux"]["cgroupsPath"] = json!("/bad/job"));
    let root = ["baton", "--root", "/run/bad"];
    // The container keeps the streams that it is created with.
    let create =
        || node.ok(&["sh", "-c", "baton --root /run/bad create --bundle /tmp/b job >/tmp/said 2>&1 </dev/null"]);
    create();
    node.ok(&[&root[..], &["start", "job"]].concat());
    // Start gives the word; the program takes the process over after that.
    until("the program runs", || node.find_process(|command| command == "sleep 1234"));
    node.write("/run/bad/job/state.json", "{\"half");
    let refused = node.refused(&[&root[..], &["state", "job"]].concat(), Code::Engine);
    assert!(refused.contains("/run/bad/job/state.json"), "{refused}");
    node.refused(&[&root[..], &["delete", "job"]].concat(), Code::Engine);
    assert!(node.find_process(|command| command == "sleep 1234").is_some(), "only force ends it");
    node.ok(&[&root[..], &["delete", "--force", "job"]].concat());
    assert_eq!(node.find_process(|command| command == "sleep 1234"), None);
    assert!(!node.root_path("/run/bad/job").exists());
    assert_eq!(node.ok(&["find", "/sys/fs/cgroup", "-path", "*/bad/job"]), "");
    create();
    node.ok(&[&root[..], &["delete", "--force", "job"]].concat());
}

#[test]
fn the_agent_and_the_hook_say_what_is_wrong() {
    let node = Machine::start("bad-helpers", "none");
    let (agent, hook) = (format!("{BIN}/baton-gpu-agent"), format!("{BIN}/baton-hook"));
    for (command, code) in [
        (&[agent.as_str()][..], Code::Usage),
        (&[&agent, "frob"], Code::Usage),
        (&[&agent, "--libcuda", "libcuda.so.1"], Code::Usage),
        (&[&agent, "--libcuda", "/nowhere"], Code::DriverMissing),
        (&[&agent, "--libcuda", "/lib/x86_64-linux-gnu/libc.so.6"], Code::DriverMissing),
        (&[&hook], Code::Usage),
        (&[&hook, "frob"], Code::Usage),
    ] {
        node.refused(command, code);
    }
}

#[test]
fn the_shim_says_what_is_wrong() {
    let node = Machine::start("bad-shim", "h100");
    let before = node.store();
    let shim = format!("{BIN}/containerd-shim-baton-v2");
    node.refused(&[&shim, "frob"], Code::Usage);
    node.refused(&[&shim], Code::Usage);
    node.refused(&["ctr", "run", "--rm", "--runtime", RUNTIME, IMAGE, "job", "/nowhere"], Code::Engine);
    node.store_becomes(&before);
    node.run_cpu_job("job");
    node.ok(&["ctr", "task", "pause", "job"]);
    node.refused(&["ctr", "task", "pause", "job"], Code::State);
    node.refused(&["ctr", "task", "exec", "--exec-id", "x", "job", "true"], Code::State);
    node.ok(&["ctr", "task", "resume", "job"]);
    node.refused(&["ctr", "task", "resume", "job"], Code::State);
    node.refused(&["ctr", "task", "exec", "--exec-id", "y", "job", "/nowhere"], Code::Engine);
    let now = node.status("job");
    node.wait_for_step("job", now.step + 5);
}

#[test]
fn a_cut_or_forged_checkpoint_starts_nothing() {
    let node = Machine::start("bad-image", "h100");
    let good = &node.reference("1");
    node.run_job("job", &[]);
    node.ok(&["baton", "save", "job", good, "--stop"]);
    node.attempt(&["ctr", "task", "delete", "job"]);
    let [manifest] = <[String; 1]>::try_from(node.blobs(good, MANIFEST)).expect("one manifest");
    let whole = node.blob(&manifest);

    let replaced = |kind: &'static str, bytes: Vec<u8>| {
        move |layers: &mut Vec<serde_json::Value>| {
            for layer in layers.iter_mut().filter(|layer| layer["mediaType"] == kind) {
                *layer = descriptor(kind, &bytes);
            }
            vec![bytes]
        }
    };
    node.forge(good, "localhost/forged/cut:1", replaced(MANIFEST, whole[..whole.len() / 2].to_vec()));
    node.forge(good, "localhost/forged/empty:1", replaced(MANIFEST, b"{}".to_vec()));
    node.forge(good, "localhost/forged/format:1", {
        let mut newer: serde_json::Value = serde_json::from_slice(&whole).expect("a manifest");
        newer["format"] = 99.into();
        replaced(MANIFEST, newer.to_string().into_bytes())
    });
    node.forge(good, "localhost/forged/none:1", |layers| {
        layers.retain(|layer| ![MANIFEST, STATE, PAGES].contains(&layer["mediaType"].as_str().unwrap_or_default()));
        Vec::new()
    });
    node.forge(good, "localhost/forged/state:1", replaced(STATE, b"no archive".to_vec()));
    node.forge(good, "localhost/forged/pages:1", replaced(PAGES, b"no pages".to_vec()));
    for name in ["cut", "empty", "format", "none", "state", "pages"] {
        let reference = format!("localhost/forged/{name}:1");
        let before = node.store();
        if !["state", "pages"].contains(&name) {
            node.refused(&["baton", "inspect", &reference], Code::ImageCorrupt);
        }
        let run = ["ctr", "run", "--rm", "--runtime", RUNTIME, &reference, "forged"];
        node.refused(&run, Code::ImageCorrupt);
        node.store_becomes(&before);
        assert_eq!(node.card().used, 0);
    }

    // Damaged where it lies.
    let pages = node.blobs(good, PAGES);
    let file = node.blob_file(&pages[0]);
    let bytes = fs::read(&file).expect("pages");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("cut pages");
    let run = ["ctr", "run", "--rm", "--runtime", RUNTIME, good, "again"];
    node.refused(&run, Code::ImageCorrupt);
    assert_eq!(image::digest(&bytes), pages[0]);
    fs::write(&file, &bytes).expect("whole pages");
    node.run_detached(&[], good, "again", &[]);
    node.status("again");
}
