//! The daemon as administrators and CUDA programs meet it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use baton_sim_wire::{Channel, MpsReply, MpsRequest};

struct Daemon {
    folder: tempfile::TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.type_in("quit -t 0\n");
    }
}

impl Daemon {
    fn start() -> Daemon {
        let daemon = Daemon { folder: tempfile::tempdir().expect("folder") };
        let done = daemon.program().arg("-d").output().expect("it runs");
        assert!(done.status.success(), "{done:?}");
        daemon
    }

    fn pipes(&self) -> PathBuf {
        self.folder.path().join("pipe")
    }

    fn program(&self) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_nvidia-cuda-mps-control"));
        program.env("CUDA_MPS_PIPE_DIRECTORY", self.pipes());
        program.env("CUDA_MPS_LOG_DIRECTORY", self.folder.path().join("log"));
        program
    }

    fn type_in(&self, lines: &str) -> Output {
        let mut program = self.program();
        let program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().expect("it runs");
        child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("it reads");
        child.wait_with_output().expect("it ends")
    }

    fn said(&self, line: &str) -> String {
        let done = self.type_in(&format!("{line}\n"));
        assert!(done.status.success(), "{line}: {done:?}");
        String::from_utf8(done.stdout).expect("text")
    }

    fn client(&self, card: &str, threads: Option<u32>) -> (Channel, MpsReply) {
        let channel = Channel::connect(&self.pipes().join("control")).expect("it listens");
        let request = MpsRequest::Client { cards: vec![card.to_owned()], threads };
        let reply = channel.ask(&request).expect("an answer").0;
        (channel, reply)
    }
}

fn until(what: &str, mut look: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !look() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_has_the_server_of_its_user_and_no_more_than_its_limits() {
    let daemon = Daemon::start();
    assert_eq!(daemon.said("get_server_list"), "", "the first client starts it");
    assert_eq!(daemon.said("set_default_active_thread_percentage 40"), "40.0\n");
    assert_eq!(daemon.said("set_default_device_pinned_mem_limit GPU-1 2G"), "2048M\n");
    let (_first, reply) = daemon.client("GPU-1", Some(80));
    let MpsReply::Welcome { server, threads: 40, memory } = reply else { panic!("{reply:?}") };
    assert_eq!(memory, [("GPU-1".to_owned(), 2 << 30)]);
    let (_second, reply) = daemon.client("GPU-1", Some(25));
    assert!(matches!(reply, MpsReply::Welcome { threads: 25, .. }), "{reply:?}");
    assert_eq!(daemon.said("get_server_list"), format!("{server}\n"));
    let name = std::fs::read_to_string(format!("/proc/{server}/comm")).expect("it lives");
    assert_eq!(name, "nvidia-cuda-mps\n", "fifteen bytes of its name");
    let own = std::process::id();
    assert_eq!(daemon.said(&format!("get_client_list {server}")), format!("{own}\n{own}\n"));
}

#[test]
fn a_fault_ends_those_on_the_card_and_keeps_others_out_until_they_are_gone() {
    let daemon = Daemon::start();
    let (first, _) = daemon.client("GPU-1", None);
    let (second, _) = daemon.client("GPU-1", None);
    let (_other, reply) = daemon.client("GPU-2", None);
    let MpsReply::Welcome { server, .. } = reply else { panic!("{reply:?}") };
    first.send(&MpsRequest::Faulted).expect("it listens");
    for lost in [&first, &second] {
        assert!(lost.receive_with::<MpsReply>().expect("a clean end").is_none(), "it is cut off");
    }
    assert_eq!(daemon.said(&format!("get_server_status {server}")), "FAULT\n");
    assert_eq!(daemon.client("GPU-2", None).1, MpsReply::Refused { code: 807 });
    drop((first, second));
    until("they are gone", || matches!(daemon.client("GPU-2", None).1, MpsReply::Welcome { .. }));
    assert_eq!(daemon.said(&format!("get_server_status {server}")), "ACTIVE\n");
}

#[test]
fn a_server_that_has_died_takes_its_clients_along_and_another_follows() {
    let daemon = Daemon::start();
    let (client, reply) = daemon.client("GPU-1", None);
    let MpsReply::Welcome { server, .. } = reply else { panic!("{reply:?}") };
    // SAFETY: plain numbers.
    assert_eq!(unsafe { libc::kill(server, libc::SIGKILL) }, 0);
    assert!(client.receive_with::<MpsReply>().expect("a clean end").is_none(), "it is cut off");
    assert_eq!(daemon.said("get_server_list"), "");
    let (_next, reply) = daemon.client("GPU-1", None);
    assert!(matches!(reply, MpsReply::Welcome { server: another, .. } if another != server), "{reply:?}");
}

#[test]
fn a_flood_of_connections_and_a_reader_that_has_gone_do_no_harm() {
    let daemon = Daemon::start();
    let connect = |_| Channel::connect(&daemon.pipes().join("control")).expect("it listens");
    let flood: Vec<Channel> = (0..400).map(connect).collect();
    until("those are turned away who are too many", || {
        connect(0).ask::<_, MpsReply>(&MpsRequest::Command { line: "ps".to_owned() }).is_err()
    });
    drop(flood);
    until("others are let in again", || daemon.type_in("ps\n").status.success());
    let full = std::fs::File::options().write(true).open("/dev/full").expect("it is there");
    let mut console = daemon.program();
    let mut console = console.stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped()).spawn().expect("it runs");
    console.stdin.take().expect("piped").write_all(b"ps\n").expect("it reads");
    let done = console.wait_with_output().expect("it ends");
    assert!(String::from_utf8_lossy(&done.stderr).starts_with("cannot print the answer"), "{done:?}");
}

#[test]
fn a_client_can_be_ended_and_the_daemon_leaves_nothing() {
    let daemon = Daemon::start();
    let (client, reply) = daemon.client("GPU-1", None);
    let MpsReply::Welcome { server, .. } = reply else { panic!("{reply:?}") };
    assert_eq!(daemon.said(&format!("terminate_client {server} {}", std::process::id())), "");
    assert!(client.receive_with::<MpsReply>().expect("a clean end").is_none());
    drop(client);
    let second = daemon.program().arg("-f").output().expect("it runs");
    assert!(String::from_utf8_lossy(&second.stderr).contains("already running"), "{second:?}");
    let wrong = daemon.type_in("explode\n");
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("explode"), "{wrong:?}");
    assert_eq!(daemon.said("quit -t 5"), "");
    until("neither the socket nor the server is left", || {
        !daemon.pipes().join("control").exists() && !Path::new(&format!("/proc/{server}")).exists()
    });
    let absent = daemon.type_in("get_server_list\n");
    assert!(
        !absent.status.success() && String::from_utf8_lossy(&absent.stderr).contains("Cannot find MPS"),
        "{absent:?}"
    );
}
