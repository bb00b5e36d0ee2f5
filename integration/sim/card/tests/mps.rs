//! Programs as clients of an MPS server. Needs root, to make device nodes.

mod machine;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use machine::player::{Player, cue, library};
use machine::{Killed, Machine};

/// A control daemon on a machine.
struct Daemon {
    pipes: tempfile::TempDir,
    program: std::path::PathBuf,
    _process: Killed,
}

impl Daemon {
    fn start(machine: &Machine) -> Daemon {
        let pipes = tempfile::tempdir().expect("folder");
        let program = machine.root().join("usr/bin/nvidia-cuda-mps-control");
        let mut run = Command::new(&program);
        run.arg("-f").env("CUDA_MPS_PIPE_DIRECTORY", pipes.path()).env("CUDA_MPS_LOG_DIRECTORY", pipes.path());
        let mut process = Killed(run.stdout(Stdio::piped()).spawn().expect("the daemon"));
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready"), "{line:?}");
        Daemon { pipes, program, _process: process }
    }

    fn pipes(&self) -> &str {
        self.pipes.path().to_str().expect("a plain path")
    }

    /// What the daemon answers to a command.
    fn command(&self, line: &str) -> String {
        let mut run = Command::new(&self.program);
        run.env("CUDA_MPS_PIPE_DIRECTORY", self.pipes()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut console = run.spawn().expect("the console");
        writeln!(console.stdin.take().expect("piped"), "{line}").expect("written");
        String::from_utf8(console.wait_with_output().expect("it ends").stdout).expect("text")
    }

    fn client(&self, machine: &Machine, more: &[(&str, &str)]) -> Player {
        let pipes = [("CUDA_MPS_PIPE_DIRECTORY", self.pipes())];
        Player::start_with(machine, "client", &[&pipes, more].concat())
    }
}

/// Says what `cuInit` gave, its multiprocessors and whether it is a client; then does as it is told, and says what came of
/// it: takes so many MiB, or breaks its context.
#[test]
#[ignore = "played in a process of its own"]
fn client() {
    let Some(api) = library() else { return };
    // SAFETY: places for what comes back.
    unsafe {
        let code = (api.init)(0);
        if code != 0 {
            cue(code);
        }
        api.open();
        let (mut processors, mut is_client) = (0, 0);
        assert_eq!((api.attribute)(&raw mut processors, 16, 0), 0);
        assert_eq!((api.attribute)(&raw mut is_client, 133, 0), 0);
        let add = api.kernel("baton_add");
        let mut told = cue(format!("{processors} {is_client}"));
        loop {
            let mut pointer = 0;
            told = cue(match told.parse::<usize>() {
                Ok(mebibytes) => (api.allocate)(&raw mut pointer, mebibytes << 20),
                Err(_) => match api.run(add, 0, &[8, 8, 8, 1]) {
                    0 => (api.synchronize)(),
                    code => code,
                },
            });
        }
    }
}

#[test]
fn a_program_is_a_client_where_there_is_a_daemon_and_has_its_share() {
    let machine = Machine::with("h100");
    let nowhere = tempfile::tempdir().expect("folder");
    let pipes = nowhere.path().to_str().expect("a plain path");
    assert_eq!(Player::start_with(&machine, "client", &[("CUDA_MPS_PIPE_DIRECTORY", pipes)]).hear(), "132 0");
    let daemon = Daemon::start(&machine);
    assert_eq!(daemon.client(&machine, &[]).hear(), "132 1");
    daemon.command("set_default_active_thread_percentage 50");
    let server = daemon.command("get_server_list").trim().to_owned();
    daemon.command(&format!("set_active_thread_percentage {server} 50"));
    assert_eq!(daemon.client(&machine, &[]).hear(), "66 1");
    assert_eq!(daemon.client(&machine, &[("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25")]).hear(), "33 1");
    assert_eq!(daemon.client(&machine, &[("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "75")]).hear(), "66 1");
}

#[test]
fn a_client_gets_no_more_memory_than_its_limit() {
    let machine = Machine::with("h100");
    let daemon = Daemon::start(&machine);
    let mut client = daemon.client(&machine, &[("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G")]);
    assert_eq!(client.hear(), "132 1");
    assert_eq!([client.ask("1000"), client.ask("24"), client.ask("1")], ["0", "0", "2"]);
}

#[test]
fn a_fault_of_one_client_ends_those_who_share_its_card_and_new_ones_wait_for_that() {
    let machine = Machine::with("h100");
    let daemon = Daemon::start(&machine);
    let (mut one, mut two) = (daemon.client(&machine, &[]), daemon.client(&machine, &[]));
    assert_eq!([one.hear(), two.hear()], ["132 1", "132 1"]);
    assert_eq!([one.ask("1"), two.ask("1")], ["0", "0"]);
    assert_eq!(one.ask("break"), "700");
    let server = daemon.command("get_server_list").trim().to_owned();
    while !daemon.command(&format!("get_server_status {server}")).contains("FAULT") {
        std::thread::yield_now();
    }
    assert_eq!([one.ask("1"), two.ask("1")], ["700", "810"]);
    assert_eq!(daemon.client(&machine, &[]).hear(), "807");
    drop((one, two));
    while daemon.command(&format!("get_server_status {server}")).contains("FAULT") {
        std::thread::yield_now();
    }
    assert_eq!(daemon.client(&machine, &[]).hear(), "132 1");
}

#[test]
fn a_client_that_is_terminated_is_told_so() {
    let machine = Machine::with("h100");
    let daemon = Daemon::start(&machine);
    let mut client = daemon.client(&machine, &[]);
    client.hear();
    let server = daemon.command("get_server_list").trim().to_owned();
    daemon.command(&format!("terminate_client {server} {}", client.pid()));
    assert_eq!(client.ask("1"), "810");
}

#[test]
fn no_driver_checkpoints_a_client_and_one_that_could_leaves_nothing_open() {
    let machine = Machine::with("h100");
    let daemon = Daemon::start(&machine);
    let mut client = daemon.client(&machine, &[]);
    client.hear();
    let (driver, pid) = (machine.driver(), client.pid());
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid), driver.unlock(pid)], [0, 801, 0]);
    machine.order("mps-checkpoint=1");
    assert_eq!([driver.lock(pid, 5000), driver.checkpoint(pid)], [0, 0]);
    let server = daemon.command("get_server_list").trim().to_owned();
    while !daemon.command(&format!("get_client_list {server}")).trim().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!([driver.restore(pid, &[]), driver.unlock(pid)], [0, 0]);
    assert_eq!(daemon.command(&format!("get_client_list {server}")).trim(), pid.to_string());
    assert_eq!(client.ask("1"), "0");
}
