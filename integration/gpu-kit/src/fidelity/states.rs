//! The states of a process.

use std::time::{Duration, Instant};

use baton_cuda::checkpoint::State;
use baton_cuda::{Driver, code};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{LOCK_MS, refused, timed};
use crate::asked::Asked;
use crate::check::{Notes, Stop, Verdict, demand};
use crate::target::Target;

fn is(driver: &Driver, pid: i32, wanted: State) -> Verdict {
    let state = driver.process_state(pid)?;
    demand(state == wanted, || format!("it is {state:?}, not {wanted:?}"))
}

/// Through all states and back. The library is loaded here and not initialised: a restore needs persistence mode, or
/// `cuInit` in the caller, and says so.
pub fn in_order(notes: &mut Notes) -> Verdict {
    let driver = Driver::load()?;
    let target = Target::start(&["hold", "256M"])?;
    let pid = target.pid();
    if let Err(error) = driver.process_state(pid) {
        notes.note(format!("without cuInit in the caller: {error}"));
        Driver::open()?;
    }
    notes.note(format!("the driver's thread is {} of process {pid}", driver.restore_thread(pid)?));
    is(driver, pid, State::Running)?;
    timed(notes, "lock", || driver.lock_process(pid, LOCK_MS))?;
    is(driver, pid, State::Locked)?;
    timed(notes, "checkpoint of 256 MiB", || driver.checkpoint_process(pid))?;
    is(driver, pid, State::Checkpointed)?;
    timed(notes, "restore", || driver.restore_process(pid, &[]))?;
    is(driver, pid, State::Locked)?;
    timed(notes, "unlock", || driver.unlock_process(pid))?;
    is(driver, pid, State::Running)?;
    target.goes_on()?;
    Ok(())
}

/// Each call in each state that is not its own.
pub fn out_of_order(_: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    let target = Target::start(&["hold", "1M"])?;
    let pid = target.pid();
    let illegal = &[code::ILLEGAL_STATE];
    refused("checkpoint of a running process", driver.checkpoint_process(pid), illegal)?;
    refused("restore of a running process", driver.restore_process(pid, &[]), illegal)?;
    refused("unlock of a running process", driver.unlock_process(pid), illegal)?;
    driver.lock_process(pid, LOCK_MS)?;
    refused("lock of a locked process", driver.lock_process(pid, LOCK_MS), illegal)?;
    refused("restore of a locked process", driver.restore_process(pid, &[]), illegal)?;
    driver.checkpoint_process(pid)?;
    refused("lock of a checkpointed process", driver.lock_process(pid, LOCK_MS), illegal)?;
    refused("checkpoint of a checkpointed process", driver.checkpoint_process(pid), illegal)?;
    refused("unlock of a checkpointed process", driver.unlock_process(pid), illegal)?;
    is(driver, pid, State::Checkpointed)?;
    driver.restore_process(pid, &[])?;
    driver.unlock_process(pid)?;
    target.goes_on()?;
    Ok(())
}

/// A process that is busy for longer than the lock waits.
pub fn lock_timeout(notes: &mut Notes) -> Verdict {
    /// Longer than the lock waits, on the card, once in each step.
    const BUSY_MS: &str = "3000";
    const PATIENCE_MS: u32 = 500;
    const ATTEMPTS: u32 = 100;
    let driver = Driver::open()?;
    let target = Target::start(&["busy", BUSY_MS])?;
    for _ in 0..ATTEMPTS {
        let begun = Instant::now();
        let answer = driver.lock_process(target.pid(), PATIENCE_MS);
        if answer.is_ok() {
            // It was between two steps.
            driver.unlock_process(target.pid())?;
            continue;
        }
        refused("lock of a busy process", answer, &[code::NOT_READY])?;
        notes.note(format!("it gave up after {} ms of {PATIENCE_MS}", begun.elapsed().as_millis()));
        is(driver, target.pid(), State::Running)?;
        driver.lock_process(target.pid(), LOCK_MS)?;
        driver.unlock_process(target.pid())?;
        return Ok(());
    }
    Err(Stop::Failed(format!("{ATTEMPTS} locks of a busy process did not wait")))
}

/// Processes without the driver.
pub fn without_cuda(notes: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    for (what, pid) in [("process 1", 1), ("no process", i32::MAX)] {
        match driver.restore_thread(pid) {
            Err(error) => notes.note(format!("{what}: {error}")),
            Ok(tid) => return Err(Stop::Failed(format!("{what} has the driver's thread {tid}"))),
        }
    }
    refused("process 1", driver.restore_thread(1), &[code::INVALID_VALUE, code::NOT_INITIALIZED])?;
    refused("no process", driver.restore_thread(i32::MAX), &[code::INVALID_VALUE, code::NOT_INITIALIZED])
}

/// A process whose threads are all stopped.
pub fn stopped(_: &mut Notes) -> Verdict {
    /// Calls on a process that runs take milliseconds.
    const PATIENCE: Duration = Duration::from_secs(2);
    let driver = Driver::open()?;
    let target = Target::start(&["hold", "1M"])?;
    let pid = target.pid();
    let signal = |signal| kill(Pid::from_raw(pid), signal).map_err(|err| format!("signal the target: {err}"));
    signal(Signal::SIGSTOP)?;
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(driver.lock_process(pid, 0)));
    let early = wait.recv_timeout(PATIENCE);
    signal(Signal::SIGCONT)?;
    demand(early.is_err(), || format!("the lock of a stopped process came to {early:?}"))?;
    let late =
        wait.recv_timeout(Duration::from_secs(10)).map_err(|_| "it hangs on after the process goes on".to_owned())?;
    late?;
    driver.unlock_process(pid)?;
    target.goes_on()?;
    Ok(())
}
