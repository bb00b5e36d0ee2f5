//! Pods and their containers live under Baton as under runc's shim, in both layouts of its configuration.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;

use baton_tests::cri::{BY_NAME, BY_PATH, PID_PER_POD, RUNC};
use baton_tests::machine::Machine;
use baton_tests::until::{until, until_equal};
use nix::pty::openpty;
use serde_json::json;

/// The shims that run on a node, by the program of each.
fn shims(node: &Machine) -> Vec<String> {
    let processes = node.ok(&["ps", "-eo", "args"]);
    let programs = processes.lines().filter_map(|line| line.split_whitespace().next());
    let shims =
        programs.filter_map(|program| program.rsplit('/').next()).filter(|name| name.starts_with("containerd-shim"));
    shims.map(str::to_owned).collect()
}

#[test]
fn a_pod_lives_from_creation_to_removal() {
    let node = Machine::start("cri-life", "none");
    for handler in [BY_PATH, BY_NAME] {
        let pod = node.pod(handler, &format!("life-{handler}"));
        let job = pod.run_job("job");
        assert_eq!(pod.state(&job).0, "CONTAINER_RUNNING");
        assert_eq!(node.ok(&["crictl", "exec", "--sync", &job, "sh", "-c", "echo out"]).trim(), "out");
        let failed = node.attempt(&["crictl", "exec", "--sync", &job, "sh", "-c", "exit 3"]);
        assert!(failed.stderr.contains("exited with 3"), "{}", failed.stderr);
        let streamed = node.attempt(&["crictl", "exec", &job, "sh", "-c", "echo out; echo err >&2; exit 3"]);
        assert_eq!(streamed.stdout, "out\n");
        assert!(streamed.stderr.contains("exit code 3"), "{}", streamed.stderr);

        pod.wait_for_step(&job, 101);
        let logs = node.ok(&["crictl", "logs", &job]);
        assert!(logs.contains("step 100 checksum 5abe7b211e1487d4"), "{logs}");
        let stats = node.ok(&["crictl", "stats", "--output", "json", "--id", &job]);
        let stats: serde_json::Value = serde_json::from_str(&stats).expect("statistics");
        let memory = &stats["stats"][0]["memory"]["workingSetBytes"]["value"];
        assert!(memory.as_str().and_then(|bytes| bytes.parse::<u64>().ok()).is_some_and(|bytes| bytes > 0), "{stats}");

        let stats = node.ok(&["crictl", "statsp", "--output", "json", "--id", &pod.id]);
        let stats: serde_json::Value = serde_json::from_str(&stats).expect("statistics");
        let containers = stats["stats"][0]["linux"]["containers"].as_array().map(Vec::len);
        assert_eq!(containers, Some(1), "{stats}");

        let short = pod.run("short", &["sh", "-c", "exit 7"]);
        assert_eq!(pod.end_of(&short), 7);
        // The job does not heed SIGTERM as a first process, so it is killed after the grace period.
        node.ok(&["crictl", "stop", "--timeout", "0", &job]);
        assert_eq!(pod.end_of(&job), 137);
        node.ok(&["crictl", "rm", &job, &short]);
        pod.remove();
        until_equal("the shim ends", &Vec::<String>::new(), || shims(&node));
    }
    assert_eq!(node.ok(&["crictl", "pods", "--quiet"]), "");
}

#[test]
fn a_terminal_is_one_on_both_ends() {
    let node = Machine::start("cri-terminal", "none");
    for handler in [BY_PATH, BY_NAME] {
        let pod = node.pod(handler, &format!("terminal-{handler}"));
        let job = pod.run_job("job");
        // crictl wants a terminal of its own on both sides.
        let ends = openpty(None, None).expect("a terminal");
        let (end, other) = (File::from(ends.slave.try_clone().expect("a copy")), File::from(ends.slave));
        let question = "read word; echo \"$(tty) $word\"; exit 4";
        let child = node
            .command(["crictl", "exec", "--tty", "--interactive", &job, "sh", "-c", question])
            .stdin(Stdio::from(end))
            .stdout(Stdio::from(other))
            .stderr(Stdio::piped())
            .spawn()
            .expect("crictl");
        let mut ours = File::from(ends.master);
        ours.write_all(b"spoken\r").expect("type");
        let err = String::from_utf8_lossy(&child.wait_with_output().expect("crictl").stderr).into_owned();
        let mut seen = Vec::new();
        // A terminal whose other end is gone ends with an error.
        let _ = ours.read_to_end(&mut seen);
        let seen = String::from_utf8_lossy(&seen);
        assert!(seen.contains("/dev/pts/0 spoken"), "{seen:?} {err}");
        assert!(err.contains("exit code 4"), "{err}");
    }
}

#[test]
fn the_containers_of_a_pod_share_one_shim_and_what_the_pod_shares() {
    let node = Machine::start("cri-shared", "none");
    for handler in [BY_PATH, BY_NAME] {
        let pod = node.pod_with(handler, &format!("shared-{handler}"), PID_PER_POD);
        let (one, other) = (pod.run_job("one"), pod.run_job("other"));
        assert_eq!(shims(&node), ["containerd-shim-baton-v2"], "{handler}");
        for kind in ["net", "ipc", "uts", "pid"] {
            let namespace =
                |id| node.ok(&["crictl", "exec", "--sync", id, "readlink", &format!("/proc/self/ns/{kind}")]);
            assert_eq!(namespace(&one), namespace(&other), "{kind}");
        }
        assert!(!node.ok(&["crictl", "exec", "--sync", &one, "ls", "/sys/fs/cgroup"]).is_empty());
        node.ok(&["crictl", "stop", "--timeout", "0", &one]);
        let before = pod.status(&other);
        pod.wait_for_step(&other, before.step + 10);
        pod.remove();
        until_equal("the shim ends", &Vec::<String>::new(), || shims(&node));
    }
}

#[test]
fn a_pod_of_a_user_namespace_sees_the_files_of_its_image_as_its_own() {
    let node = Machine::start("cri-users", "none");
    let mounts = || node.ok(&["cat", "/proc/self/mountinfo"]).lines().map(place).collect::<Vec<_>>();
    let before = mounts();
    for (handler, from) in [(RUNC, 200_000), (BY_PATH, 300_000), (BY_NAME, 400_000)] {
        let pod = node.pod_of_users(handler, &format!("users-{handler}"), from);
        let job = pod.run("job", &["sh", "-c", "sleep 1000"]);
        let ask = |question: &str| node.ok(&["crictl", "exec", "--sync", &job, "sh", "-c", question]);
        let map = ask("cat /proc/self/uid_map");
        assert_eq!(map.split_whitespace().collect::<Vec<_>>(), ["0", &from.to_string(), "65536"], "{handler}");
        let owners = ask("stat -c %u:%g /counter /bin/sh; echo new >/new; stat -c %u:%g /new");
        assert_eq!(owners.trim(), "0:0\n0:0\n0:0", "{handler}");
        let file = format!("/run/containerd/io.containerd.runtime.v2.task/k8s.io/{job}/rootfs");
        let owners = node.ok(&["stat", "-c", "%u:%g", &format!("{file}/counter"), &format!("{file}/new")]);
        assert_eq!(owners, format!("{from}:{from}\n{from}:{from}\n"), "{handler}");
        pod.remove();
        until_equal("the shim ends", &Vec::<String>::new(), || shims(&node));
    }
    until_equal("no mount is left", &before, mounts);
}

/// Where a line of mountinfo says that a mount is.
fn place(line: &str) -> String {
    line.split_whitespace().nth(4).unwrap_or_default().to_owned()
}

#[test]
fn a_container_of_a_pod_gets_the_card_that_it_asks_for() {
    let node = Machine::start("cri-card", "h100x2");
    let cards = node.cards();
    for (handler, number) in [(BY_PATH, 0), (BY_NAME, 1)] {
        let pod = node.pod(handler, &format!("card-{handler}"));
        // containerd hands annotations on where the handler's configuration says so.
        let annotated = json!({ "annotations": { "io.baton.devices": number.to_string() } });
        let asking = json!({ "envs": [{ "key": "NVIDIA_VISIBLE_DEVICES", "value": cards[1 - number].uuid }] });
        let one = pod.run_gpu_job("annotated", &annotated);
        assert_eq!(pod.status(&one).gpu.as_deref(), Some(cards[number].uuid.as_str()), "{handler}");
        let other = pod.run_gpu_job("asking", &asking);
        assert_eq!(pod.status(&other).gpu.as_deref(), Some(cards[1 - number].uuid.as_str()), "{handler}");
        pod.remove();
        until("the cards are free", || node.cards().iter().all(|card| card.users.is_empty()).then_some(()));
    }
}

#[test]
fn pods_of_runc_and_of_baton_live_side_by_side() {
    let node = Machine::start("cri-beside", "none");
    let pods: Vec<_> = [RUNC, BY_PATH, BY_NAME].map(|handler| node.pod(handler, &format!("beside-{handler}"))).into();
    let jobs: Vec<_> = pods.iter().map(|pod| pod.run_job("job")).collect();
    let mut running = shims(&node);
    running.sort();
    assert_eq!(running, ["containerd-shim-baton-v2", "containerd-shim-baton-v2", "containerd-shim-runc-v2"]);
    for (pod, job) in pods.iter().zip(&jobs) {
        let step = pod.status(job).step;
        pod.wait_for_step(job, step + 10);
        // Pods of one node reach each other.
        let address = pods[0].address();
        node.ok(&["crictl", "exec", "--sync", job, "ping", "-c", "1", "-W", "5", &address]);
    }
    for pod in pods {
        pod.remove();
    }
    until("the shims end", || shims(&node).is_empty().then_some(()));
}
