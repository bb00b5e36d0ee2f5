//! nerdctl drives Baton as it drives runc's shim: as a shim of its own, and as the engine behind runc's shim. Every step
//! is asked of runc too, on the same node. Skipped, and said so, where there is no nerdctl on PATH.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use baton_tests::client::Client;
use baton_tests::job::{IMAGE, RUNTIME};
use baton_tests::nerdctl::Nerdctl;
use baton_tests::until::until_equal;

/// runc, Baton, and runc's shim with Baton as its engine: a path means that to nerdctl.
const RUNTIMES: [&str; 3] = ["io.containerd.runc.v2", RUNTIME, "/usr/local/bin/baton"];

#[test]
fn containers_are_run_executed_in_paused_measured_limited_and_ended() {
    let Some(nerdctl) = Nerdctl::start("nerdctl-life") else { return };
    for runtime in RUNTIMES {
        output_and_status(&nerdctl, runtime);
        nerdctl.run_job(runtime, &["--memory", "64m", "--cpus", "0.5"], "job");
        execs(&nerdctl);
        logs_and_pause(&nerdctl);
        measures_and_limits(&nerdctl);
        ends(&nerdctl);
        assert_eq!(nerdctl.node().ok(&["ctr", "containers", "ls", "-q"]), "", "under {runtime}");
    }
}

fn output_and_status(nerdctl: &Nerdctl, runtime: &str) {
    let head = ["run", "--rm", "--net", "none", "--runtime", runtime, "--entrypoint", "/bin/sh", IMAGE];
    let done = nerdctl.attempt(&[&head[..], &["-c", "echo out; echo err >&2; exit 7"]].concat());
    assert_eq!(done.status.code(), Some(7), "{done:?}");
    assert_eq!(done.stdout, "out\n", "under {runtime}");
    assert!(done.stderr.lines().any(|line| line == "err"), "{done:?}");
}

fn execs(nerdctl: &Nerdctl) {
    // nerdctl itself ends with 1, whatever an executed program ends with.
    let done = nerdctl.attempt(&["exec", "job", "sh", "-c", "echo said; exit 9"]);
    assert_eq!((done.status.code(), done.stdout.as_str()), (Some(1), "said\n"), "{done:?}");
    assert!(done.stderr.contains("exit code 9"), "{done:?}");
    let mut child = nerdctl
        .node()
        .command(["timeout", "60", "nerdctl", "exec", "-i", "job", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("nerdctl exec");
    child.stdin.take().expect("its input").write_all(b"typed\n").expect("write");
    let done = child.wait_with_output().expect("its end");
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b"typed\n"[..]));
}

fn logs_and_pause(nerdctl: &Nerdctl) {
    nerdctl.wait_for_step("job", 101);
    let first = "step 100 checksum 5abe7b211e1487d4".to_owned();
    until_equal("its log has its first line", &Some(first), || {
        nerdctl.ok(&["logs", "job"]).lines().next().map(str::to_owned)
    });
    nerdctl.ok(&["pause", "job"]);
    assert_eq!(nerdctl.state("job"), "paused 0");
    nerdctl.ok(&["unpause", "job"]);
    assert_eq!(nerdctl.state("job"), "running 0");
    let step = nerdctl.first_status("job").step;
    nerdctl.wait_for_step("job", step + 5);
}

fn measures_and_limits(nerdctl: &Nerdctl) {
    let stats = nerdctl.ok(&["stats", "--no-stream", "--format", "{{.MemUsage}} {{.PIDs}}", "job"]);
    assert!(stats.contains("/ 64MiB "), "{stats}");
    let processes: u32 = stats.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    assert!(processes >= 1, "{stats}");
    assert!(nerdctl.ok(&["top", "job"]).contains("/counter --cpu"));
    nerdctl.ok(&["update", "--memory", "128m", "--memory-swap", "256m", "job"]);
    let id = nerdctl.ok(&["inspect", "-f", "{{.Id}}", "job"]);
    let files = [format!("memory/default/{id}/memory.limit_in_bytes"), format!("default/{id}/memory.max")];
    let limits = files.map(|file| fs::read_to_string(nerdctl.node().root_path("/sys/fs/cgroup").join(file)));
    assert!(limits.iter().flatten().any(|limit| limit.trim() == "134217728"), "{limits:?}");
}

fn ends(nerdctl: &Nerdctl) {
    let before = nerdctl.wait_for_step("job", 120).step;
    nerdctl.ok(&["restart", "job"]);
    assert!(nerdctl.first_status("job").step < before);
    nerdctl.ok(&["stop", "job"]);
    assert_eq!(nerdctl.state("job"), "exited 143");
    nerdctl.ok(&["start", "job"]);
    nerdctl.first_status("job");
    nerdctl.ok(&["kill", "job"]);
    until_equal("it is killed", &"exited 137".to_owned(), || nerdctl.state("job"));
    nerdctl.ok(&["rm", "job"]);
}

#[test]
fn containers_and_execs_have_terminals() {
    let Some(nerdctl) = Nerdctl::start("nerdctl-terminal") else { return };
    let sized =
        "while [ \"$(busybox stty size 2>&1)\" != '33 111' ]; do busybox sleep 0.1; done; echo sized $((40 + 2))\n";
    for runtime in RUNTIMES {
        let run = ["nerdctl", "run", "-it", "--rm", "--net", "none", "--runtime", runtime, "--entrypoint", "/bin/sh"];
        let mut terminal = nerdctl.node().on_terminal(&[&run[..], &[IMAGE]].concat(), 33, 111);
        terminal.type_in(sized);
        terminal.shows("sized 42");
        terminal.type_in("exit 5\n");
        assert_eq!(terminal.end(), Some(5), "under {runtime}");

        nerdctl.run_job(runtime, &[], "job");
        let mut terminal = nerdctl.node().on_terminal(&["nerdctl", "exec", "-it", "job", "/bin/sh"], 33, 111);
        terminal.type_in(sized);
        terminal.shows("sized 42");
        terminal.type_in("exit\n");
        assert_eq!(terminal.end(), Some(0), "under {runtime}");
        nerdctl.ok(&["rm", "-f", "job"]);
    }
}

#[test]
fn a_container_is_checkpointed_and_started_from_there() {
    let Some(nerdctl) = Nerdctl::start("nerdctl-checkpoint") else { return };
    for runtime in RUNTIMES {
        nerdctl.run_job(runtime, &["--memory", "64m"], "job");
        let before = nerdctl.wait_for_step("job", 40);
        nerdctl.ok(&["checkpoint", "create", "--leave-running", "job", "there"]);
        assert!(nerdctl.ok(&["checkpoint", "ls", "job"]).contains("there"));
        let later = nerdctl.first_status("job");
        nerdctl.wait_for_step("job", later.step + 20);
        nerdctl.ok(&["kill", "job"]);
        until_equal("it is killed", &"exited 137".to_owned(), || nerdctl.state("job"));
        nerdctl.ok(&["start", "--checkpoint", "there", "job"]);
        let again = nerdctl.first_status("job");
        assert!(again.step >= before.step, "{} < {} under {runtime}", again.step, before.step);
        nerdctl.wait_for_step("job", again.step + 10);
        assert!(nerdctl.ok(&["top", "job"]).contains("/counter --cpu"));
        nerdctl.ok(&["checkpoint", "rm", "job", "there"]);
        assert!(!nerdctl.ok(&["checkpoint", "ls", "job"]).contains("there"));
        nerdctl.ok(&["stop", "job"]);
        assert_eq!(nerdctl.state("job"), "exited 143");
        nerdctl.ok(&["rm", "job"]);
    }
}
