//! Docker drives Baton as it drives runc's shim: every step is asked of both, on one node.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use baton_tests::client::Client;
use baton_tests::docker::{Docker, RUNTIMES};
use baton_tests::job::IMAGE;
use baton_tests::until::{until, until_equal};

#[test]
fn containers_are_run_executed_in_paused_measured_limited_and_ended() {
    let docker = Docker::start("docker-life", "none");
    for runtime in RUNTIMES {
        output_and_status(&docker, runtime);
        docker.run_job(runtime, &["--network", "none", "--memory", "64m", "--cpus", "0.5"], "job");
        execs(&docker);
        logs_and_pause(&docker);
        measures_and_limits(&docker);
        ends(&docker);
        let left = docker.node().ok(&["ctr", "-n", "moby", "containers", "ls", "-q"]);
        assert_eq!(left, "", "under {runtime}");
    }
}

fn output_and_status(docker: &Docker, runtime: &str) {
    let head = ["run", "--rm", "--network", "none", "--runtime", runtime, "--entrypoint", "/bin/sh", IMAGE];
    let done = docker.attempt(&[&head[..], &["-c", "echo out; echo err >&2; exit 7"]].concat());
    assert_eq!(done.status.code(), Some(7), "{done:?}");
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out\n", "err\n"), "under {runtime}");
}

fn execs(docker: &Docker) {
    let done = docker.attempt(&["exec", "job", "sh", "-c", "echo said; exit 9"]);
    assert_eq!((done.status.code(), done.stdout.as_str()), (Some(9), "said\n"), "{done:?}");
    let mut child = docker
        .node()
        .command(["timeout", "60", "docker", "exec", "-i", "job", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("docker exec");
    child.stdin.take().expect("its input").write_all(b"typed\n").expect("write");
    let done = child.wait_with_output().expect("its end");
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b"typed\n"[..]));
}

fn logs_and_pause(docker: &Docker) {
    docker.wait_for_step("job", 101);
    let logs = docker.ok(&["logs", "job"]);
    assert_eq!(logs.lines().next(), Some("step 100 checksum 5abe7b211e1487d4"));
    docker.ok(&["pause", "job"]);
    assert_eq!(docker.known("job", "{{.State.Status}}"), "paused");
    docker.ok(&["unpause", "job"]);
    assert_eq!(docker.known("job", "{{.State.Status}}"), "running");
    let step = docker.status("job").step;
    docker.wait_for_step("job", step + 5);
}

fn measures_and_limits(docker: &Docker) {
    let stats = docker.ok(&["stats", "--no-stream", "--format", "{{.MemUsage}} {{.PIDs}}", "job"]);
    assert!(stats.contains("/ 64MiB "), "{stats}");
    let processes: u32 = stats.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    assert!(processes >= 1, "{stats}");
    assert!(docker.ok(&["top", "job"]).contains("/counter --cpu"));
    docker.ok(&["update", "--memory", "128m", "--memory-swap", "256m", "job"]);
    let id = docker.known("job", "{{.Id}}");
    let files = [format!("memory/docker/{id}/memory.limit_in_bytes"), format!("docker/{id}/memory.max")];
    let limits = files.map(|file| fs::read_to_string(docker.node().root_path("/sys/fs/cgroup").join(file)));
    assert!(limits.iter().flatten().any(|limit| limit.trim() == "134217728"), "{limits:?}");
}

fn ends(docker: &Docker) {
    let before = docker.wait_for_step("job", 120).step;
    docker.ok(&["restart", "job"]);
    until("it counts from the start", || {
        let done = docker.attempt(&["exec", "job", "/counter", "status"]);
        (done.status.success() && done.stdout.contains("\"step\":")).then_some(())
    });
    assert!(docker.status("job").step < before);
    docker.ok(&["stop", "job"]);
    assert_eq!(docker.known("job", "{{.State.Status}} {{.State.ExitCode}}"), "exited 143");
    docker.ok(&["start", "job"]);
    docker.ok(&["kill", "job"]);
    until_equal("it is killed", &"exited 137".to_owned(), || {
        docker.known("job", "{{.State.Status}} {{.State.ExitCode}}")
    });
    docker.ok(&["rm", "job"]);
}

#[test]
fn containers_and_execs_have_terminals() {
    let docker = Docker::start("docker-terminal", "none");
    // Docker tells the size of the window a moment after the start.
    let sized =
        "while [ \"$(busybox stty size 2>&1)\" != '33 111' ]; do busybox sleep 0.1; done; echo sized $((40 + 2))\n";
    for runtime in RUNTIMES {
        let run =
            ["docker", "run", "-it", "--rm", "--network", "none", "--runtime", runtime, "--entrypoint", "/bin/sh"];
        let mut terminal = docker.node().on_terminal(&[&run[..], &[IMAGE]].concat(), 33, 111);
        terminal.type_in(sized);
        terminal.shows("sized 42");
        terminal.type_in("exit 5\n");
        assert_eq!(terminal.end(), Some(5), "under {runtime}");

        docker.run_job(runtime, &["--network", "none"], "job");
        let mut terminal = docker.node().on_terminal(&["docker", "exec", "-it", "job", "/bin/sh"], 33, 111);
        terminal.type_in(sized);
        terminal.shows("sized 42");
        terminal.type_in("exit 6\n");
        assert_eq!(terminal.end(), Some(6), "under {runtime}");
        docker.ok(&["rm", "-f", "job"]);
    }
}

/// With a network of its own no container can be started from a checkpoint by this Docker, whatever its runtime: it looks
/// for that network by the process of the container, and there is none before the restore.
#[test]
fn a_container_is_checkpointed_and_started_from_there() {
    let docker = Docker::start("docker-checkpoint", "none");
    for runtime in RUNTIMES {
        docker.run_job(runtime, &["--network", "host", "--memory", "64m"], "job");
        let before = docker.wait_for_step("job", 40);
        docker.ok(&["checkpoint", "create", "--leave-running", "job", "there"]);
        assert!(docker.ok(&["checkpoint", "ls", "job"]).contains("there"));
        let later = docker.status("job");
        docker.wait_for_step("job", later.step + 20);
        docker.ok(&["kill", "job"]);
        until("Docker has let go of what the checkpoint left in containerd", || {
            docker.attempt(&["start", "--checkpoint", "there", "job"]).status.success().then_some(())
        });
        assert_eq!(docker.known("job", "{{.State.Status}}"), "running");
        let again = docker.status("job");
        assert!(again.step >= before.step, "{} < {} under {runtime}", again.step, before.step);
        docker.wait_for_step("job", again.step + 10);
        assert_eq!(docker.attempt(&["exec", "job", "sh", "-c", "exit 9"]).status.code(), Some(9));
        docker.ok(&["checkpoint", "rm", "job", "there"]);
        assert!(!docker.ok(&["checkpoint", "ls", "job"]).contains("there"));
        docker.ok(&["stop", "job"]);
        assert_eq!(docker.known("job", "{{.State.ExitCode}}"), "143");
        docker.ok(&["rm", "job"]);
    }
}
