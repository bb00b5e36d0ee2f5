//! The driver's own thread. It sleeps until a signal brings a ticket, fetches the deed from the hardware, does it and
//! reports. Between deeds it holds nothing that a checkpoint of the process could not carry.
//!
//! All other threads may be stopped while it works, at any point. So it waits for nobody but the hardware: the gate and the
//! heap need no lock of theirs (`gate`, `allocator`), the tables are locked only by calls inside the gate, and nothing
//! that it calls takes memory from the program's `malloc` or a lock of the loader's (no `opendir`, `getenv`, `dlsym`).

use std::io;

use baton_sim_wire::{Channel, CommandOrders, Deed, FaultAction, Reply, Request};

use crate::allocator;
use crate::codes::{Code, Outcome};
use crate::driver::Driver;
use crate::job::Turn;
use crate::state::ProcessState;
use crate::{fault, mover, signals};

/// How callers find the thread: its name in `/proc/PID/task/TID/comm`.
pub const NAME: &str = "cuda-ckpt";

/// What wakes it, sent to the thread itself with the ticket as its value.
pub fn signal() -> i32 {
    libc::SIGRTMIN() + 12
}

/// Starts the thread; returns once it may be signalled.
pub fn start() -> io::Result<()> {
    let (ready, started) = std::sync::mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        allocator::become_driver();
        signals::block_all();
        // The name comes after the mask: who finds the thread may signal it.
        // SAFETY: a NUL-terminated name of less than 16 bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"cuda-ckpt".as_ptr()) };
        let _ = ready.send(());
        loop {
            if let (Some(ticket), Ok(driver)) = (next_ticket(), Driver::get()) {
                serve(driver, ticket);
            }
        }
    })?;
    started.recv().map_err(io::Error::other)
}

fn wanted() -> libc::sigset_t {
    // SAFETY: an all-zero set is storage for sigemptyset, which initialises it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal());
        set
    }
}

/// Waits for a signal; `None` when interrupted, as by being dumped and restored.
fn next_ticket() -> Option<u64> {
    let set = wanted();
    // SAFETY: set and info live through the call; the value is only read from a queued signal.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        (libc::sigwaitinfo(&raw const set, &raw mut info) > 0 && info.si_code == libc::SI_QUEUE)
            .then(|| info.si_value().sival_ptr as u64)
    }
}

fn serve(driver: &Driver, ticket: u64) {
    let Ok(channel) = Channel::connect(&driver.root.socket()) else { return };
    // A refusal means that the caller has gone, or that the signal is an old one from another machine.
    if let Ok((Reply::Job { deed, orders }, _)) = channel.ask::<_, Reply>(&Request::Take { ticket }) {
        let code = crate::codes::code_of(perform(driver, &deed, &orders));
        let _ = channel.send(&Request::Outcome { code, state: driver.state().told() });
    }
}

fn perform(driver: &Driver, deed: &Deed, orders: &CommandOrders) -> Outcome {
    fault::suffer(orders.fault)?;
    driver.state().allows(deed)?;
    match deed {
        Deed::State => Ok(()),
        Deed::Lock { timeout_ms } => lock(driver, *timeout_ms, orders),
        Deed::Checkpoint => in_turn(driver, || checkpoint(driver, orders)),
        Deed::Restore { pairs } => in_turn(driver, || restore(driver, pairs, orders)),
        Deed::Unlock => unlock(driver),
    }
}

/// Processes of one job are moved one after the other.
fn in_turn(driver: &Driver, deed: impl FnOnce() -> Outcome) -> Outcome {
    let _turn = driver.job.as_ref().map(Turn::take).transpose()?;
    deed()
}

fn unlock(driver: &Driver) -> Outcome {
    mover::complete(driver)?;
    driver.set_state(ProcessState::Running);
    driver.gate.open();
    Ok(())
}

fn lock(driver: &Driver, timeout_ms: u32, orders: &CommandOrders) -> Outcome {
    let patience = (timeout_ms > 0).then(|| std::time::Duration::from_millis(u64::from(timeout_ms)));
    // An ordered hang is a call that stays inside.
    let endless = orders.lock_hang.then(|| driver.gate.enter());
    let closed = driver.gate.close(patience);
    drop(endless);
    if !closed {
        return Err(Code::NOT_READY);
    }
    driver.set_state(ProcessState::Locked);
    Ok(())
}

fn checkpoint(driver: &Driver, orders: &CommandOrders) -> Outcome {
    let outcome = match orders.fail {
        Some(code) => Err(Code(code)),
        // NVIDIA/nccl#2340.
        None if driver.has_group() => fault::suffer(Some(FaultAction::Hang)),
        None => mover::to_host(driver, orders),
    };
    match outcome {
        Ok(()) => driver.set_state(ProcessState::Checkpointed),
        Err(Code::OPERATING_SYSTEM | Code::UNKNOWN) => driver.set_state(ProcessState::Failed),
        Err(_) => {}
    }
    outcome
}

fn restore(driver: &Driver, pairs: &[baton_sim_wire::UuidPair], orders: &CommandOrders) -> Outcome {
    let outcome = match orders.fail {
        Some(code) => {
            let ruined = [Code::OUT_OF_MEMORY, Code::OPERATING_SYSTEM].contains(&Code(code));
            Err(mover::RestoreFault { code: Code(code), ruined })
        }
        None => mover::to_cards(driver, pairs, orders),
    };
    match outcome {
        Ok(()) => {
            driver.set_state(ProcessState::Locked);
            Ok(())
        }
        Err(fault) => {
            match fault {
                mover::RestoreFault { ruined: false, .. } => {}
                mover::RestoreFault { code: Code::OUT_OF_MEMORY, .. } => driver.set_state(ProcessState::Stranded),
                mover::RestoreFault { .. } => driver.set_state(ProcessState::Failed),
            }
            Err(fault.code)
        }
    }
}
