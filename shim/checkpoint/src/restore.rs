//! A restore, in the order of the design, from the gate on:
//!
//! lease → room → fetch → create from the live spec and CRIU restore, held while device nodes and rules are set
//! right → CUDA restore of each → verify locked → unlock all → verify running → started.
//!
//! A restore that fails kills the half-restored tree; the image stays as it was.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_config::Settings;
use baton_devices::{Card, GpuUuid};
use baton_fault::{Attempt, Code, Fault, Result};
use baton_image::Checkpoint;

use crate::cgroup::Cgroup;
use crate::gpu::{self, CudaState, Gpu, Share, UNLOCK_DEADLINE};
use crate::journal::{Journal, Undo};
use crate::lease::Lease;
use crate::processes::ProcessId;
use crate::publish::{Containerd, Order, Worker};
use crate::room;

/// Longest wait for a card that another save or restore holds.
const LEASE_PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for room on the cards.
const ROOM_PATIENCE: Duration = Duration::from_secs(60);

/// What is restored, and the parts of the world that it takes.
pub struct Restoration<'a> {
    /// The container's id.
    pub id: &'a str,
    /// Its bundle.
    pub bundle: &'a Path,
    /// The checkpoint, which passed the gate.
    pub checkpoint: &'a Checkpoint,
    /// The cards it gets, in the order of the checkpoint's.
    pub cards: &'a [Card],
    /// The driver's checkpoint calls; present when it gets cards.
    pub gpu: Option<&'a dyn Gpu>,
    /// Image work in a process of its own.
    pub worker: &'a dyn Worker,
    /// Where the image is.
    pub containerd: &'a Containerd,
    /// The node's settings.
    pub settings: &'a Settings,
}

/// Restores a container: `start` has the engine restore CRIU's images (first folder), with its logs in the second,
/// and gives the pid of the first process.
///
/// # Errors
/// What failed. The caller then kills the half-restored tree.
pub async fn restore<F, S>(restoration: &Restoration<'_>, start: S) -> Result<u32>
where
    S: FnOnce(PathBuf, PathBuf) -> F,
    F: Future<Output = Result<u32>>,
{
    let began = Instant::now();
    let _lease = restoration.lease().await?;
    restoration.room().await?;
    let staging = Staging::make(restoration)?;
    restoration.fetch(&staging.images()).await?;
    let fetched = began.elapsed();
    let init = start(staging.images(), staging.work()).await?;
    let restored = began.elapsed();
    restoration.cuda(init).await?;
    log::info!(
        "restored {} from {}: fetch {} ms, processes {} ms, GPU memory {} ms",
        restoration.id,
        restoration.checkpoint.reference,
        fetched.as_millis(),
        (restored - fetched).as_millis(),
        (began.elapsed() - restored).as_millis(),
    );
    Ok(init)
}

impl Restoration<'_> {
    fn map(&self) -> Result<Vec<(GpuUuid, GpuUuid)>> {
        self.checkpoint
            .manifest
            .gpus
            .iter()
            .zip(self.cards)
            .map(|(saved, card)| Ok((saved.uuid.parse()?, card.uuid)))
            .collect()
    }

    fn shares(&self) -> Vec<Share> {
        self.checkpoint
            .manifest
            .gpus
            .iter()
            .zip(self.cards)
            .map(|(saved, card)| Share { card: card.uuid, bytes: saved.memory_used })
            .collect()
    }

    async fn lease(&self) -> Result<Lease> {
        let cards: Vec<GpuUuid> = self.cards.iter().map(|card| card.uuid).collect();
        Lease::take(&self.settings.paths.run, &cards, LEASE_PATIENCE).await
    }

    async fn room(&self) -> Result<()> {
        match self.gpu {
            Some(gpu) => room::wait_for(gpu, &self.shares(), ROOM_PATIENCE).await,
            None => Ok(()),
        }
    }

    async fn fetch(&self, into: &Path) -> Result<()> {
        let order = Order::Fetch {
            containerd: self.containerd.clone(),
            reference: self.checkpoint.reference.clone(),
            digest: self.checkpoint.digest.to_string(),
            into: into.to_path_buf(),
        };
        self.worker.work(&order).await.map(drop)
    }

    /// Brings the GPU state of every process that had one onto the cards, and lets none go on before all are back.
    async fn cuda(&self, init: u32) -> Result<()> {
        let Some(gpu) = self.gpu else { return Ok(()) };
        let processes = self.cuda_processes(gpu, init).await?;
        let map = self.map()?;
        for (process, bytes) in &processes {
            gpu::must_be(gpu, *process, CudaState::Checkpointed, "CRIU's restore").await?;
            gpu.restore(process.pid, &map, self.settings.save.gpu_deadline(*bytes)).await?;
            gpu::must_be(gpu, *process, CudaState::Locked, "the restore").await?;
        }
        for (process, _) in &processes {
            gpu.unlock(process.pid, UNLOCK_DEADLINE).await?;
        }
        for (process, _) in &processes {
            gpu::must_be(gpu, *process, CudaState::Running, "the unlock").await?;
        }
        Ok(())
    }

    /// The processes that have GPU state, with its bytes: those of the checkpoint, by the pids they have here. The
    /// driver's word must be the same, or a process would be left without its memory, or another be touched.
    async fn cuda_processes(&self, gpu: &dyn Gpu, init: u32) -> Result<Vec<(ProcessId, u64)>> {
        let differs = |why: String| {
            Fault::new(Code::RestoreState, format!("restore {}", self.id), why)
                .advise("save it again; the image does not describe its processes")
        };
        let saved = &self.checkpoint.manifest.processes;
        let mut found = Vec::new();
        for process in Cgroup::of(init)?.pids()?.into_iter().filter_map(ProcessId::now) {
            let pid = process.in_container()?;
            let said = saved.iter().find(|known| known.pid == pid).and_then(|known| known.gpu.as_ref());
            match (said, gpu.is_cuda(process.pid).await?) {
                (Some(had), true) => found.push((process, had.bytes)),
                (None, false) => {}
                (Some(_), false) => {
                    return Err(differs(format!(
                        "process {pid} had GPU memory, and the driver knows nothing of it here"
                    )));
                }
                (None, true) => {
                    return Err(differs(format!(
                        "the driver has state of process {pid}, and the checkpoint tells of none"
                    )));
                }
            }
        }
        let wanted = saved.iter().filter(|known| known.gpu.is_some()).count();
        if found.len() != wanted {
            return Err(differs(format!("{wanted} processes had GPU memory, {} of them are here", found.len())));
        }
        Ok(found)
    }
}

/// The folder into which a checkpoint is fetched; removed when dropped, and by the shim's `delete` when the shim is
/// killed before.
struct Staging {
    folder: PathBuf,
    journal: Option<Journal>,
}

impl Staging {
    fn make(restoration: &Restoration<'_>) -> Result<Staging> {
        use std::os::unix::fs::DirBuilderExt;
        let parent = &restoration.settings.paths.staging;
        std::fs::create_dir_all(parent).attempt(|| format!("make {}", parent.display()))?;
        let now = time::OffsetDateTime::now_utc().unix_timestamp_nanos();
        let folder = parent.join(format!("restore-{}-{}-{now}", restoration.containerd.namespace, restoration.id));
        let mut journal = Journal::begin(restoration.bundle)?;
        journal.will(Undo::RemoveStaging { folder: folder.clone() })?;
        let staging = Staging { folder, journal: Some(journal) };
        for path in [staging.folder.clone(), staging.work()] {
            std::fs::DirBuilder::new().mode(0o700).create(&path).attempt(|| format!("make {}", path.display()))?;
        }
        Ok(staging)
    }

    fn images(&self) -> PathBuf {
        self.folder.join("images")
    }

    fn work(&self) -> PathBuf {
        self.folder.join("work")
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        match std::fs::remove_dir_all(&self.folder) {
            Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                log::warn!("remove {}: {err}", self.folder.display());
            }
            _ => {
                if let Some(mut journal) = self.journal.take() {
                    journal.undone();
                    journal.end();
                }
            }
        }
    }
}
