//! The agent as a program, on a driver library that checks what it is given (`fake_cuda`).

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_devices::GpuUuid;
use baton_fault::Code;
use baton_gpu_agent::protocol::Call;
use baton_gpu_agent::refusal::{ILLEGAL_STATE, NOT_READY, OUT_OF_MEMORY};
use baton_gpu_agent::{Agent, CallError, CudaState, Process};

const AGENT: &str = env!("CARGO_BIN_EXE_baton-gpu-agent");
const SOON: Duration = Duration::from_secs(30);
const LOCK: Duration = Duration::from_millis(250);
const SHORT: Duration = Duration::from_millis(50);
// As in fake_cuda.
const HANGS: u32 = 666;
const BUSY: u32 = 667;
const FULL: u32 = 668;
const DEADLY: u32 = 670;

fn fake_cuda() -> PathBuf {
    let test = std::env::current_exe().expect("test");
    let build = test.parent().and_then(Path::parent).expect("target/<profile>");
    let library = build.join("examples/libfake_cuda.so");
    assert!(library.exists(), "{} is built by `cargo test` without --test", library.display());
    library
}

async fn agent() -> Agent {
    Agent::start(Path::new(AGENT), &fake_cuda()).await.expect("agent")
}

fn card(byte: u8) -> GpuUuid {
    GpuUuid::from_bytes([byte; 16])
}

/// Something that is told when the process ends.
fn watch(pid: u32) -> OwnedFd {
    // SAFETY: a system call on numbers; what it returns is ours.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        assert!(fd >= 0, "no process {pid}");
        OwnedFd::from_raw_fd(fd as i32)
    }
}

fn ended(process: &OwnedFd) -> bool {
    let mut polled = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&mut polled, 1, 30_000) == 1 }
}

/// A program in place of the agent.
fn stand_in(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents").join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_goes_round_through_its_states() {
    let agent = agent().await;
    assert_eq!(agent.cuda_version(), 13000);
    // An even process stays on its card, an odd one moves.
    for (pid, map) in [(200, vec![]), (202, vec![(card(1), card(1))]), (201, vec![(card(0x11), card(0x22))])] {
        let Ok(Process::Running(running)) = Process::read(&agent, pid).await else { panic!("{pid} runs") };
        let locked = running.lock(LOCK).await.expect("locked");
        assert_eq!(agent.state(pid).await, Ok(CudaState::Locked));
        let saved = locked.checkpoint(SOON).await.expect("checkpointed");
        assert_eq!(agent.state(pid).await, Ok(CudaState::Checkpointed));
        let locked = saved.restore(&map, SOON).await.expect("restored");
        let running = locked.unlock(SOON).await.expect("unlocked");
        assert_eq!(running.pid(), pid);
        assert_eq!(agent.state(pid).await, Ok(CudaState::Running));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_cuda_processes_have_a_restore_thread() {
    let agent = agent().await;
    assert_eq!(agent.restore_thread(2).await, Ok(None));
    assert_eq!(agent.restore_thread(3).await, Ok(None));
    assert_eq!(agent.restore_thread(300).await, Ok(Some(301)));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_keep_the_drivers_number() {
    let agent = agent().await;
    let timeout = agent.lock(BUSY, LOCK).await.expect_err("busy");
    assert_eq!(timeout.code, Code::CrLockTimeout);
    assert_eq!(agent.state(BUSY).await, Ok(CudaState::Running));
    agent.lock(FULL, LOCK).await.expect("locked");
    let full = agent.checkpoint(FULL, SOON).await.expect_err("full");
    assert_eq!(full.code, Code::CrDriver);
    assert!(full.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY (2)"), "{full}");
    for (call, pid, number) in
        [(Call::Lock, BUSY, NOT_READY), (Call::Checkpoint, FULL, OUT_OF_MEMORY), (Call::Unlock, 400, ILLEGAL_STATE)]
    {
        match agent.call(call, pid, 250, &[], SOON).await {
            Err(CallError::Refused(refusal)) => assert_eq!(refusal.code, number),
            other => panic!("{call} of {pid}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_hangs_blocks_no_other() {
    let agent = agent().await;
    let hung = agent.unlock(HANGS, SHORT).await.expect_err("hangs");
    assert_eq!(hung.code, Code::Deadline);
    assert!(hung.to_string().contains("outcome unknown"), "{hung}");
    assert_eq!(agent.state(500).await, Ok(CudaState::Running));
    let process = watch(agent.pid().expect("running"));
    drop(agent);
    assert!(ended(&process), "the agent outlives its owner");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_agent_dies_all_that_wait_are_told() {
    let agent = agent().await;
    let waiting = tokio::spawn({
        let agent = agent.clone();
        async move { agent.unlock(HANGS, SOON).await }
    });
    let own = agent.lock(DEADLY, LOCK).await.expect_err("dead");
    assert_eq!(own.code, Code::CrHelperMissing);
    assert_eq!(waiting.await.expect("task").expect_err("dead").code, Code::CrHelperMissing);
    assert_eq!(agent.state(500).await.expect_err("dead").code, Code::CrHelperMissing);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_does_not_start_says_why() {
    let start = |program: PathBuf, library: PathBuf| async move {
        Agent::start(&program, &library).await.map(drop).expect_err("no agent")
    };
    let fault = start("/no/such/agent".into(), fake_cuda()).await;
    assert_eq!(fault.code, Code::CrHelperMissing);
    let fault = start(AGENT.into(), "/no/libcuda.so.1".into()).await;
    assert_eq!(fault.code, Code::DriverMissing);
    assert!(fault.to_string().contains("/no/libcuda.so.1"), "{fault}");
    for (name, code) in
        [("ends", Code::CrHelperMissing), ("nonsense", Code::CrHelperMissing), ("refused", Code::CrDriver)]
    {
        let fault = start(stand_in(name), fake_cuda()).await;
        assert_eq!(fault.code, code, "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_driver_restores_on_the_same_card_only() {
    let agent = Agent::start(&stand_in("old"), Path::new("/libcuda.so.1")).await.expect("agent");
    let fault = agent.restore(7, &[(card(1), card(2))], SOON).await.expect_err("too old");
    assert_eq!(fault.code, Code::CrUnsupported);
    agent.restore(7, &[(card(1), card(1))], SOON).await.expect("the same card");
}
