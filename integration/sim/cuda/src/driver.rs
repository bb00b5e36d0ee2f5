//! The driver's state in this process.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use baton_sim_wire::DriverRoot;

use crate::codes::{Code, Outcome};
use crate::context::Contexts;
use crate::event::Event;
use crate::fault;
use crate::gate::Gate;
use crate::memory::Memory;
use crate::module::Modules;
use crate::mps;
use crate::multicast::Group;
use crate::pool::Pools;
use crate::session::Session;
use crate::slots::Slot;
use crate::state::ProcessState;
use crate::stream::Stream;
use crate::table::Table;
use crate::version::DriverVersion;
use std::sync::Arc;

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Set in a forked child, where CUDA is unusable, as with the real driver.
static FORKED: AtomicBool = AtomicBool::new(false);

/// The driver, once `cuInit` has succeeded.
#[derive(Debug)]
pub struct Driver {
    /// Where it was loaded from.
    pub root: DriverRoot,
    /// Its version.
    pub version: DriverVersion,
    /// CUDA version, as the hardware says.
    pub cuda: i32,
    /// What every call passes.
    pub gate: Gate,
    /// The job that the process was launched in.
    pub job: Option<File>,
    /// Whether it is a client of an MPS server.
    is_mps_client: bool,
    /// Where the page of faults is mapped; 0 while the process is checkpointed.
    faults: AtomicUsize,
    state: AtomicU32,
    parts: Mutex<Parts>,
}

/// What calls work on, one at a time.
#[derive(Debug)]
pub struct Parts {
    /// None while the process is checkpointed.
    pub session: Option<Session>,
    /// The process's devices.
    pub slots: Vec<Slot>,
    /// The slots that `CUDA_VISIBLE_DEVICES` shows: `CUdevice` is an index into this.
    pub shown: Vec<usize>,
    /// Its contexts.
    pub contexts: Contexts,
    /// Its device memory, and host memory that the devices reach.
    pub memory: Memory,
    /// Its streams, but for the default ones.
    pub streams: Table<Arc<Stream>>,
    /// Its events.
    pub events: Table<Event>,
    /// Its modules and libraries, and what is in them.
    pub modules: Modules,
    /// Its pools of memory.
    pub pools: Pools,
    /// Its multicast groups.
    pub groups: Table<Group>,
    /// The MPS server whose client it is.
    pub mps: Option<mps::Client>,
}

impl Parts {
    /// Nothing but a connection and devices.
    pub fn new(session: Session, slots: Vec<Slot>, shown: Vec<usize>, mps: Option<mps::Client>) -> Parts {
        Parts {
            session: Some(session),
            pools: Pools::of(slots.len()),
            slots,
            shown,
            contexts: Contexts::default(),
            memory: Memory::default(),
            streams: Table::of_kind(2),
            events: Table::of_kind(3),
            modules: Modules::default(),
            groups: Table::of_kind(10),
            mps,
        }
    }

    /// The connection, which a call that passed the gate always has.
    pub fn session(&self) -> Outcome<&Session> {
        self.session.as_ref().ok_or(Code::UNKNOWN)
    }

    /// The slot of a `CUdevice`.
    pub fn slot_of_device(&self, device: i32) -> Outcome<usize> {
        usize::try_from(device).ok().and_then(|index| self.shown.get(index)).copied().ok_or(Code::INVALID_DEVICE)
    }

    /// The `CUdevice` of a slot.
    pub fn device_of_slot(&self, slot: usize) -> Outcome<i32> {
        let index = self.shown.iter().position(|shown| *shown == slot);
        index.map(|index| index as i32).ok_or(Code::INVALID_DEVICE)
    }
}

impl Driver {
    /// The driver of this process.
    pub fn get() -> Outcome<&'static Driver> {
        if is_forked() {
            return Err(Code::NOT_INITIALIZED);
        }
        DRIVER.get().ok_or(Code::NOT_INITIALIZED)
    }

    /// A driver that nobody has called yet.
    pub fn new(root: DriverRoot, cuda: i32, parts: Parts, job: Option<File>) -> Driver {
        let version = DriverVersion::of(root.version());
        let faults = AtomicUsize::new(parts.session.as_ref().map_or(0, |session| session.faults.address()));
        let state = AtomicU32::new(ProcessState::Running as u32);
        let is_mps_client = parts.mps.is_some();
        let (gate, parts) = (Gate::new(), Mutex::new(parts));
        Driver { root, version, cuda, gate, job, is_mps_client, faults, state, parts }
    }

    /// Makes it the driver of this process.
    pub fn install(self) -> Outcome {
        DRIVER.set(self).map_err(|_| Code::UNKNOWN)?;
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
        Ok(())
    }

    /// The parts. Only calls and work inside the gate, and the driver's own thread, ask for them.
    pub fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Meets the fault that was ordered for that call, if any. Only inside the gate, where the page is mapped.
    pub fn meet_fault(&self, call: &str) -> Outcome {
        // SAFETY: the page goes only while nobody is inside the gate.
        if !unsafe { fault::stands(self.faults.load(Ordering::SeqCst)) } {
            return Ok(());
        }
        let action = self.parts().session()?.fault(call)?;
        fault::suffer(action)
    }

    /// Whether the MPS server that the process is a client of, if any, still has it.
    pub fn check_mps(&self) -> Outcome {
        if self.is_mps_client { self.parts().mps.as_ref().map_or(Ok(()), mps::Client::check) } else { Ok(()) }
    }

    /// Whether the process has a multicast group, joined by devices or not.
    pub fn has_group(&self) -> bool {
        self.parts().groups.iter().next().is_some()
    }

    /// A context is broken: an MPS server hears of it.
    pub fn tell_fault(&self) {
        if self.is_mps_client
            && let Some(mps) = &mut self.parts().mps
        {
            mps.fault();
        }
    }

    /// The connection goes, or another one comes; only the driver's own thread says so.
    pub fn connect(&self, parts: &mut Parts, session: Option<Session>) {
        self.faults.store(session.as_ref().map_or(0, |session| session.faults.address()), Ordering::SeqCst);
        parts.session = session;
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

/// Whether this is a child of a process that used CUDA.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

extern "C" fn in_forked_child() {
    FORKED.store(true, Ordering::Relaxed);
}
