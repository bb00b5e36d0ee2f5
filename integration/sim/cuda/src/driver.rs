//! The driver's state in this process.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use baton_sim_wire::DriverRoot;

use crate::codes::{Code, Outcome, code_of, give};
use crate::context::Contexts;
use crate::gate::Gate;
use crate::memory::Memory;
use crate::session::Session;
use crate::slots::{self, Slot};
use crate::state::ProcessState;
use crate::thread;

/// What this library says when there is no hardware to ask.
const CUDA_VERSION: i32 = 13000;

static DRIVER: OnceLock<Driver> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

/// Set in a forked child, where CUDA is unusable, as with the real driver.
static FORKED: AtomicBool = AtomicBool::new(false);

/// The driver, once `cuInit` has succeeded.
#[derive(Debug)]
pub struct Driver {
    /// Where it was loaded from.
    pub root: DriverRoot,
    /// What every call passes.
    pub gate: Gate,
    state: AtomicU32,
    cuda: i32,
    parts: Mutex<Parts>,
}

/// What calls work on, one at a time, like work on the default stream.
#[derive(Debug)]
pub struct Parts {
    /// None while the process is checkpointed.
    pub session: Option<Session>,
    /// The process's cards.
    pub slots: Vec<Slot>,
    /// The slots that `CUDA_VISIBLE_DEVICES` shows: `CUdevice` is an index into this.
    pub shown: Vec<usize>,
    /// Its contexts.
    pub contexts: Contexts,
    /// Its device memory.
    pub memory: Memory,
}

impl Parts {
    /// The connection, which a call that passed the gate always has.
    pub fn session(&self) -> Outcome<&Session> {
        self.session.as_ref().ok_or(Code::UNKNOWN)
    }

    /// The slot of a `CUdevice`.
    pub fn slot_of_device(&self, device: i32) -> Outcome<usize> {
        usize::try_from(device).ok().and_then(|index| self.shown.get(index)).copied().ok_or(Code::INVALID_DEVICE)
    }
}

impl Driver {
    /// The driver of this process.
    pub fn get() -> Outcome<&'static Driver> {
        if FORKED.load(Ordering::Relaxed) {
            return Err(Code::NOT_INITIALIZED);
        }
        DRIVER.get().ok_or(Code::NOT_INITIALIZED)
    }

    /// The parts. Only calls inside the gate and the driver's own thread ask for them.
    pub fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state for the checkpoint API.
    pub fn state(&self) -> ProcessState {
        ProcessState::from_number(self.state.load(Ordering::SeqCst))
    }

    /// Sets it; only the driver's own thread does.
    pub fn set_state(&self, state: ProcessState) {
        self.state.store(state as u32, Ordering::SeqCst);
    }
}

/// Makes one CUDA call: waits at the gate, then works on the parts.
pub fn call(work: impl FnOnce(&mut Parts) -> Outcome) -> i32 {
    code_of(Driver::get().and_then(|driver| {
        let _inside = driver.gate.enter();
        work(&mut driver.parts())
    }))
}

/// The root this library was loaded from.
pub fn root() -> Outcome<DriverRoot> {
    DriverRoot::of_library(cuInit as *const c_void).ok_or(Code::NO_DEVICE)
}

fn start() -> Outcome {
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if FORKED.load(Ordering::Relaxed) {
        return Err(Code::NOT_INITIALIZED);
    }
    if DRIVER.get().is_some() {
        return Ok(());
    }
    let root = root()?;
    let session = Session::open(&root)?;
    let machine = session.machine()?;
    let slots = slots::openable(&root, &machine.cards);
    let shown = slots::shown(&slots, std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref());
    if shown.is_empty() {
        return Err(Code::NO_DEVICE);
    }
    let parts =
        Parts { session: Some(session), slots, shown, contexts: Contexts::default(), memory: Memory::default() };
    let state = AtomicU32::new(ProcessState::Running as u32);
    let driver = Driver { root, gate: Gate::new(), state, cuda: machine.cuda, parts: Mutex::new(parts) };
    if DRIVER.set(driver).is_err() {
        return Err(Code::UNKNOWN);
    }
    // SAFETY: the handler only stores to an atomic.
    unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
    thread::start().map_err(|_| Code::OPERATING_SYSTEM)
}

extern "C" fn in_forked_child() {
    FORKED.store(true, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: u32) -> i32 {
    if flags != 0 {
        return Code::INVALID_VALUE.0;
    }
    code_of(start())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut i32) -> i32 {
    let cuda = DRIVER.get().map_or(CUDA_VERSION, |driver| driver.cuda);
    // SAFETY: the C caller gives a place for an int.
    code_of(unsafe { give(version, cuda) })
}
