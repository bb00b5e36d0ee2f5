//! A CUDA process in a known state, with the steps that this state allows.
//!
//! ```text
//! Running ── lock ──▶ Locked ── checkpoint ──▶ Checkpointed
//!    ▲                 │  ▲                         │
//!    └───── unlock ────┘  └──────── restore ────────┘
//! ```
//!
//! Each step is verified: the driver is asked for the state afterwards. A step that fails uses its handle up,
//! because what the process is in then is not known; [`Process::read`] finds out.

use std::time::Duration;

use baton_devices::GpuUuid;
use baton_fault::{Code, Fault, Result};

use crate::{Agent, CudaState};

/// A process that uses the GPU.
#[derive(Clone)]
struct Handle {
    agent: Agent,
    pid: u32,
}

/// A process whose CUDA calls go through.
pub struct Running(Handle);

/// A process whose CUDA calls block.
pub struct Locked(Handle);

/// A process whose GPU memory is in host memory.
pub struct Checkpointed(Handle);

/// A process in the state that the driver named.
pub enum Process {
    /// See [`Running`].
    Running(Running),
    /// See [`Locked`].
    Locked(Locked),
    /// See [`Checkpointed`].
    Checkpointed(Checkpointed),
}

impl Process {
    /// Asks the driver in which state the process is.
    ///
    /// # Errors
    /// `CR_LOST` for a process that the driver has given up, `CR_GPU_STATE_MISSING` for a state on the way to
    /// another, and those of [`Agent::state`].
    pub async fn read(agent: &Agent, pid: u32) -> Result<Process> {
        let handle = Handle { agent: agent.clone(), pid };
        match agent.state(pid).await? {
            CudaState::Running => Ok(Process::Running(Running(handle))),
            CudaState::Locked => Ok(Process::Locked(Locked(handle))),
            CudaState::Checkpointed => Ok(Process::Checkpointed(Checkpointed(handle))),
            state => Err(unexpected(pid, "read the state", state, "running, locked or checkpointed")),
        }
    }

    /// The process id, as the host numbers it.
    pub fn pid(&self) -> u32 {
        match self {
            Process::Running(process) => process.pid(),
            Process::Locked(process) => process.pid(),
            Process::Checkpointed(process) => process.pid(),
        }
    }
}

impl Running {
    /// The process id, as the host numbers it.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Blocks its CUDA calls, within `timeout`.
    ///
    /// # Errors
    /// As [`Agent::lock`]; after `CR_LOCK_TIMEOUT` the process runs on.
    pub async fn lock(self, timeout: Duration) -> Result<Locked> {
        self.0.agent.lock(self.0.pid, timeout).await?;
        self.0.verify("lock", CudaState::Locked).await.map(Locked)
    }
}

impl Locked {
    /// The process id, as the host numbers it.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Moves its GPU memory to host memory and lets the card go.
    ///
    /// # Errors
    /// As [`Agent::checkpoint`].
    pub async fn checkpoint(self, deadline: Duration) -> Result<Checkpointed> {
        self.0.agent.checkpoint(self.0.pid, deadline).await?;
        self.0.verify("checkpoint", CudaState::Checkpointed).await.map(Checkpointed)
    }

    /// Lets its CUDA calls go on.
    ///
    /// # Errors
    /// As [`Agent::unlock`].
    pub async fn unlock(self, deadline: Duration) -> Result<Running> {
        self.0.agent.unlock(self.0.pid, deadline).await?;
        self.0.verify("unlock", CudaState::Running).await.map(Running)
    }
}

impl Checkpointed {
    /// The process id, as the host numbers it.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Moves its memory back, as [`Agent::restore`] does.
    ///
    /// # Errors
    /// As [`Agent::restore`]. One that fails for lack of memory has ruined the process.
    pub async fn restore(self, map: &[(GpuUuid, GpuUuid)], deadline: Duration) -> Result<Locked> {
        self.0.agent.restore(self.0.pid, map, deadline).await?;
        self.0.verify("restore", CudaState::Locked).await.map(Locked)
    }
}

impl Handle {
    async fn verify(self, step: &str, wanted: CudaState) -> Result<Handle> {
        match self.agent.state(self.pid).await? {
            state if state == wanted => Ok(self),
            state => Err(unexpected(self.pid, step, state, &wanted.to_string())),
        }
    }
}

fn unexpected(pid: u32, step: &str, state: CudaState, wanted: &str) -> Fault {
    let what = format!("{step} of CUDA process {pid}");
    let why = format!("it is {state}, it should be {wanted}");
    match state {
        CudaState::Failed => Fault::new(Code::CrLost, what, why).advise("end it and restore from an image"),
        _ => Fault::new(Code::CrGpuStateMissing, what, why).advise("read its state again; something else may drive it"),
    }
}
