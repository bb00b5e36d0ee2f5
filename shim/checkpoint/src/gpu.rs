//! What a save and a restore ask of the driver for each process of a container.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use baton_config::Driver;
use baton_devices::{CardUsage, GpuUuid};
use baton_fault::{Code, Fault, Result};
use baton_gpu_agent::Agent;
pub use baton_gpu_agent::CudaState;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::processes::ProcessId;
use crate::room;

/// Longest wait for the driver to say the state of a process.
pub const STATE_DEADLINE: Duration = Duration::from_secs(10);
/// Longest wait for an unlock.
pub const UNLOCK_DEADLINE: Duration = Duration::from_secs(10);

/// The driver's checkpoint calls. Each has a deadline; an overrun leaves the outcome unknown.
#[async_trait]
pub trait Gpu: Send + Sync {
    /// Whether the process has CUDA state.
    async fn is_cuda(&self, pid: u32) -> Result<bool>;
    /// The state of a CUDA process.
    async fn state(&self, pid: u32) -> Result<CudaState>;
    /// Running → locked; on an overrun the process stays running.
    async fn lock(&self, pid: u32, timeout: Duration) -> Result<()>;
    /// Locked → checkpointed: GPU memory moves into the process.
    async fn checkpoint(&self, pid: u32, deadline: Duration) -> Result<()>;
    /// Checkpointed → locked, on the cards that `map` names for those it was on.
    async fn restore(&self, pid: u32, map: &[(GpuUuid, GpuUuid)], deadline: Duration) -> Result<()>;
    /// Locked → running.
    async fn unlock(&self, pid: u32, deadline: Duration) -> Result<()>;
    /// What is used and free on cards, and by whom.
    async fn usage(&self, cards: &[GpuUuid]) -> Result<Vec<CardUsage>>;
}

/// The driver of this node: its agent for CUDA, started at the first call, kept, and started anew when it has ended;
/// and NVML.
pub struct NodeGpu {
    program: PathBuf,
    driver: Driver,
    agent: Mutex<Option<Agent>>,
}

impl NodeGpu {
    /// The driver under `driver`, with the agent `program` (an absolute path).
    pub fn new(program: PathBuf, driver: Driver) -> NodeGpu {
        NodeGpu { program, driver, agent: Mutex::new(None) }
    }

    /// The agent.
    ///
    /// # Errors
    /// `DRIVER_MISSING` or `CR_HELPER_MISSING`; it is tried again at the next call.
    pub async fn agent(&self) -> Result<Agent> {
        // Held while it starts, so that only one is started: whoever wants it has to wait for it anyway.
        let mut slot = self.agent.lock().await;
        if let Some(agent) = slot.as_ref().filter(|agent| agent.is_alive()) {
            return Ok(agent.clone());
        }
        let driver = self.driver.clone();
        let library = tokio::task::spawn_blocking(move || baton_devices::cuda_library(&driver))
            .await
            .map_err(|err| Fault::new(Code::System, "look for the CUDA library", err))??;
        let agent = Agent::start(&self.program, &library).await?;
        *slot = Some(agent.clone());
        Ok(agent)
    }
}

/// GPU memory of one process on one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The card.
    pub card: GpuUuid,
    /// Bytes on it.
    pub bytes: u64,
}

/// A process of a container that has CUDA state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaProcess {
    /// The process.
    pub id: ProcessId,
    /// What it has on each card.
    pub shares: Vec<Share>,
}

impl CudaProcess {
    /// GPU memory on all cards, in bytes.
    pub fn bytes(&self) -> u64 {
        self.shares.iter().map(|share| share.bytes).sum()
    }
}

/// Demands that a process is in `wanted` state.
///
/// # Errors
/// `CR_GPU_STATE_MISSING`, with the state it is in.
pub async fn must_be(gpu: &dyn Gpu, process: ProcessId, wanted: CudaState, after: &str) -> Result<()> {
    let state = gpu.state(process.pid).await?;
    if state == wanted {
        return Ok(());
    }
    Err(Fault::new(
        Code::CrGpuStateMissing,
        format!("verify process {} after {after}", process.pid),
        format!("the driver says {state}, expected {wanted}"),
    )
    .advise("see the kernel's log for the driver's own message"))
}

#[async_trait]
impl Gpu for NodeGpu {
    async fn is_cuda(&self, pid: u32) -> Result<bool> {
        Ok(self.agent().await?.restore_thread(pid).await?.is_some())
    }

    async fn state(&self, pid: u32) -> Result<CudaState> {
        self.agent().await?.state(pid).await
    }

    async fn lock(&self, pid: u32, timeout: Duration) -> Result<()> {
        self.agent().await?.lock(pid, timeout).await
    }

    async fn checkpoint(&self, pid: u32, deadline: Duration) -> Result<()> {
        self.agent().await?.checkpoint(pid, deadline).await
    }

    async fn restore(&self, pid: u32, map: &[(GpuUuid, GpuUuid)], deadline: Duration) -> Result<()> {
        self.agent().await?.restore(pid, map, deadline).await
    }

    async fn unlock(&self, pid: u32, deadline: Duration) -> Result<()> {
        self.agent().await?.unlock(pid, deadline).await
    }

    async fn usage(&self, cards: &[GpuUuid]) -> Result<Vec<CardUsage>> {
        room::usage(&self.driver, cards).await
    }
}
