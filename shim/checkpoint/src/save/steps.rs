//! The steps of a save. Each is one function; the order is in the parent module.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use baton_devices::GpuUuid;
use baton_fault::{Attempt, Code, Fault, Result};
use baton_image::manifest::{Criu, Gpu as SavedGpu, GpuKind, Process, ProcessGpu, Source};
use baton_image::{BaseImage, ContainerRecord, Layer, Manifest, Store};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Held, Job, LookedUp, Request, Saved, Saving, Staged, Step};
use crate::cgroup::MemoryLimit;
use crate::engine::Dump;
use crate::gpu::{self, CudaProcess, CudaState, Gpu, Share};
use crate::host;
use crate::journal::{Journal, Undo};
use crate::lease::Lease;
use crate::processes::ProcessId;
use crate::publish::{Order, PublishOrder, Report};

/// How often the container's processes are listed again for new CUDA processes before the save gives up.
const ROUNDS_MAX: usize = 3;
/// Longest wait for a card that another save or restore holds.
const LEASE_PATIENCE: Duration = Duration::from_secs(30);
/// Room that is asked for beyond what was counted, in bytes: CRIU's small images, page tables, growth meanwhile.
const MARGIN: u64 = 64 << 20;
/// Longest time for a dump: this, and as much as a slow disk takes for the memory.
const DUMP_LIMIT: Duration = Duration::from_secs(120);
/// The slowest disk that a dump waits for, in bytes per second.
const DUMP_BYTES_PER_SECOND: u64 = 50 << 20;
/// Longest wait for killed processes to be gone.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether they are.
const END_RETRY: Duration = Duration::from_millis(20);

/// What a save needs room for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// Memory of the processes.
    pub memory: u64,
    /// Memory on the cards.
    pub gpu: u64,
}

impl<'a> Saving<'a> {
    pub(crate) fn begin(job: &'a Job<'a>) -> Result<Saving<'a>> {
        Ok(Saving::new(job, Journal::begin(job.bundle)?, None))
    }

    pub(crate) fn again(job: &'a Job<'a>, held: Held) -> Saving<'a> {
        Saving::new(job, held.journal, held.lease)
    }

    fn new(job: &'a Job<'a>, journal: Journal, lease: Option<Lease>) -> Saving<'a> {
        Saving {
            job,
            journal,
            lease,
            processes: Vec::new(),
            began: Instant::now(),
            steps: Vec::new(),
            locked_at: None,
            frozen_at: None,
            frozen_for: Duration::ZERO,
            held_for: Duration::ZERO,
            room_patience: super::ROOM_PATIENCE,
            freeze_again: job.frozen,
        }
    }

    pub(super) fn note<T>(&mut self, name: &str, began: Instant, outcome: Result<T>) -> Result<T> {
        self.steps.push(Step { name: name.to_string(), ms: millis(began.elapsed()) });
        outcome
    }

    pub(super) fn gpu(&self) -> Result<&'a dyn Gpu> {
        self.job.gpu.ok_or_else(|| Fault::new(Code::CrHelperMissing, format!("save {}", self.job.id), "no GPU agent"))
    }

    fn uuids(&self) -> Vec<GpuUuid> {
        self.job.cards.iter().map(|card| card.uuid).collect()
    }

    /// Finds the container in containerd's store, and the image that it was made from.
    pub(super) async fn look_up(&mut self) -> Result<LookedUp> {
        let store = self.job.containerd.connect().await?;
        let record = store.container(self.job.id).await?;
        let base = store.base_image(&record).await?;
        Ok((store, record, base))
    }

    /// Whether there is room for everything, asked before anything is touched.
    pub(super) async fn preflight(&mut self) -> Result<Need> {
        let began = Instant::now();
        let outcome = self.preflight_all().await;
        self.note("preflight", began, outcome)
    }

    async fn preflight_all(&mut self) -> Result<Need> {
        let pids = self.job.cgroup.pids()?;
        let mut need = Need { memory: 0, gpu: 0 };
        need.memory = pids.iter().filter_map(|pid| ProcessId::now(*pid)).map(|process| process.dump_bytes()).sum();
        if !self.job.cards.is_empty() {
            let usage = self.gpu()?.usage(&self.uuids()).await?;
            let ours = |pid: &u32| pids.contains(pid);
            need.gpu = usage
                .iter()
                .flat_map(|card| &card.processes)
                .filter(|(pid, _)| ours(pid))
                .filter_map(|(_, used)| *used)
                .sum();
            host_memory_for(self.job.id, need.gpu)?;
        }
        Ok(need)
    }

    /// Takes the lease on the cards, so that nobody of Baton's starts on them while they are empty.
    pub(super) async fn lease(&mut self) -> Result<()> {
        if !self.job.cards.is_empty() {
            self.lease = Some(Lease::take(&self.job.settings.paths.run, &self.uuids(), LEASE_PATIENCE).await?);
        }
        Ok(())
    }

    /// Makes the folder for CRIU's images and the lease for the blobs, where there is room for them.
    pub(super) async fn stage(&mut self, store: &Store, need: Need) -> Result<Staged> {
        let parent = &self.job.settings.paths.staging;
        std::fs::create_dir_all(parent).attempt(|| format!("make {}", parent.display()))?;
        disk_for(self.job.id, parent, need.memory + need.gpu)?;
        let name = format!(
            "{}-{}-{}",
            self.job.containerd.namespace,
            self.job.id,
            OffsetDateTime::now_utc().unix_timestamp_nanos()
        );
        let folder = parent.join(name);
        self.journal.will(Undo::RemoveStaging { folder: folder.clone() })?;
        let (images, work) = (folder.join("images"), folder.join("work"));
        private_folder(&folder)?;
        private_folder(&images)?;
        private_folder(&work)?;
        let content = store.lease().await?;
        self.journal.will(Undo::DeleteContentLease { id: content.id().to_string() })?;
        Ok(Staged { images, work, content })
    }

    /// Thaws a container that was frozen: driver calls on frozen processes hang.
    pub(super) async fn thaw(&mut self) -> Result<()> {
        if self.job.frozen && !self.job.cards.is_empty() {
            self.journal.will(Undo::Freeze)?;
            self.job.engine.resume().await?;
        }
        Ok(())
    }

    /// Brings every CUDA process to a safe point and keeps it there, until two looks at the container agree.
    pub(super) async fn lock_all(&mut self) -> Result<()> {
        if self.job.cards.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        self.locked_at = Some(began);
        let outcome = self.lock_rounds(began).await;
        self.note("lock", began, outcome)
    }

    async fn lock_rounds(&mut self, began: Instant) -> Result<()> {
        let patience = Duration::from_secs(u64::from(self.job.settings.save.lock_timeout_s));
        let mut locked: BTreeSet<ProcessId> = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let fresh: Vec<ProcessId> =
                self.cuda_processes().await?.into_iter().filter(|process| !locked.contains(process)).collect();
            if fresh.is_empty() && !locked.is_empty() {
                return self.count_shares(locked).await;
            }
            for process in fresh {
                self.journal.will(Undo::Unlock { process })?;
                let left = patience.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
                self.gpu()?.lock(process.pid, left).await?;
                gpu::must_be(self.gpu()?, process, CudaState::Locked, "the lock").await?;
                locked.insert(process);
            }
        }
        if self.cuda_processes().await?.iter().all(|process| locked.contains(process)) {
            return self.count_shares(locked).await;
        }
        Err(Fault::new(
            Code::CrLockTimeout,
            format!("lock the CUDA processes of {}", self.job.id),
            format!("new ones appeared in each of {ROUNDS_MAX} looks"),
        )
        .advise("save it when it has stopped starting processes"))
    }

    async fn cuda_processes(&self) -> Result<Vec<ProcessId>> {
        let mut found = Vec::new();
        for process in self.job.cgroup.pids()?.into_iter().filter_map(ProcessId::now) {
            if self.gpu()?.is_cuda(process.pid).await? {
                found.push(process);
            }
        }
        Ok(found)
    }

    /// Notes what each locked process has on each card: as much has to be free again before it is brought back.
    async fn count_shares(&mut self, locked: BTreeSet<ProcessId>) -> Result<()> {
        let usage = self.gpu()?.usage(&self.uuids()).await?;
        let shares = |pid: u32| {
            usage
                .iter()
                .map(|card| Share {
                    card: card.uuid,
                    bytes: card.processes.iter().filter(|(user, _)| *user == pid).filter_map(|(_, used)| *used).sum(),
                })
                .collect()
        };
        self.processes = locked.into_iter().map(|id| CudaProcess { id, shares: shares(id.pid) }).collect();
        Ok(())
    }

    /// Lets the container have the memory that its GPU state will take in it.
    pub(super) fn raise_memory_limit(&mut self) -> Result<()> {
        let moved: u64 = self.processes.iter().map(CudaProcess::bytes).sum();
        let Some(limit) = self.job.cgroup.memory_limit()?.filter(|_| moved > 0) else { return Ok(()) };
        self.journal.will(Undo::LowerMemoryLimit { file: limit.file.clone(), bytes: limit.bytes })?;
        MemoryLimit { bytes: limit.bytes + moved + MARGIN, ..limit }.set()
    }

    /// Moves the GPU memory of every locked process into the process.
    pub(super) async fn checkpoint_all(&mut self) -> Result<()> {
        if self.processes.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let outcome = self.checkpoint_each().await;
        self.note("checkpoint GPU memory", began, outcome)
    }

    async fn checkpoint_each(&mut self) -> Result<()> {
        for process in self.processes.clone() {
            self.journal.will(Undo::RestoreGpu { process: process.id, shares: process.shares.clone() })?;
            let deadline = self.job.settings.save.gpu_deadline(process.bytes());
            self.gpu()?.checkpoint(process.id.pid, deadline).await?;
        }
        Ok(())
    }

    /// Demands the driver's word that each process is off the card.
    pub(super) async fn verify_gone_from_the_card(&mut self) -> Result<()> {
        for process in &self.processes {
            gpu::must_be(self.gpu()?, process.id, CudaState::Checkpointed, "the checkpoint").await?;
        }
        Ok(())
    }

    /// Freezes the container, and looks for GPU files that anybody in it still holds: such a process cannot be
    /// dumped.
    pub(super) async fn freeze(&mut self) -> Result<()> {
        if self.job.frozen && self.job.cards.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        self.frozen_at = Some(began);
        let outcome = self.freeze_all().await;
        self.note("freeze", began, outcome)
    }

    async fn freeze_all(&mut self) -> Result<()> {
        self.journal.will(Undo::Thaw)?;
        self.job.engine.pause().await?;
        for process in self.job.cgroup.pids()?.into_iter().filter_map(ProcessId::now) {
            if process.holds_gpu_files() {
                return Err(Fault::new(
                    Code::CrGpuStateMissing,
                    format!("save {}", self.job.id),
                    format!("process {} ({}) still holds files of the GPU", process.pid, process.command()),
                )
                .advise("processes that were forked without exec after CUDA began cannot be saved"));
            }
        }
        Ok(())
    }

    /// Describes what is being saved.
    pub(super) async fn describe(&mut self, base: &BaseImage, record: &ContainerRecord) -> Result<Manifest> {
        let now = OffsetDateTime::now_utc();
        let created = now.format(&Rfc3339).map_err(|err| Fault::new(Code::System, "tell the time", err))?;
        Ok(Manifest {
            format: baton_image::manifest::FORMAT,
            created,
            source: Source {
                container: self.job.id.to_string(),
                image: record.image.clone(),
                image_digest: base.digest.to_string(),
                node: host::node_name(),
            },
            host: host::here()?,
            criu: Criu { version: self.job.criu.to_string() },
            driver: self.job.driver.clone(),
            gpus: self.saved_gpus(),
            processes: self.saved_processes()?,
            mounts: self.job.mounts.to_vec(),
            segments: Vec::new(),
            state: None,
        })
    }

    fn saved_gpus(&self) -> Vec<SavedGpu> {
        let used = |uuid: GpuUuid| {
            self.processes
                .iter()
                .flat_map(|p| &p.shares)
                .filter(|share| share.card == uuid)
                .map(|share| share.bytes)
                .sum()
        };
        self.job
            .cards
            .iter()
            .map(|card| SavedGpu {
                uuid: card.uuid.to_string(),
                model: card.model.clone(),
                compute_capability: [card.compute_capability.major, card.compute_capability.minor],
                pci_bus_id: card.pci_bus_id.clone(),
                kind: GpuKind::Whole,
                memory_total: card.memory_total,
                memory_used: used(card.uuid),
            })
            .collect()
    }

    fn saved_processes(&self) -> Result<Vec<Process>> {
        let bytes =
            |id: &ProcessId| self.processes.iter().find(|p| p.id == *id).map(|p| ProcessGpu { bytes: p.bytes() });
        self.job
            .cgroup
            .pids()?
            .into_iter()
            .filter_map(ProcessId::now)
            .filter(|id| id.descends_from(self.job.init))
            .map(|id| Ok(Process { pid: id.in_container()?, command: id.command(), gpu: bytes(&id) }))
            .collect()
    }

    /// Has CRIU write the images of the frozen container into the staging folder.
    pub(super) async fn dump(&mut self, staged: &Staged, need: Need) -> Result<()> {
        self.dump_into(&staged.dump(), need).await
    }

    pub(super) async fn dump_into(&mut self, dump: &Dump, need: Need) -> Result<()> {
        let began = Instant::now();
        let limit = DUMP_LIMIT + Duration::from_secs((need.memory + need.gpu) / DUMP_BYTES_PER_SECOND);
        let outcome = self.job.engine.dump(dump, limit).await;
        self.note("CRIU dump", began, outcome)
    }

    /// Takes the changes of the root filesystem, while nothing writes to it.
    pub(super) async fn diff(&mut self, store: &Store, staged: &Staged, record: &ContainerRecord) -> Result<Layer> {
        let began = Instant::now();
        let key = Store::view_key(&staged.content, record);
        self.journal.will(Undo::RemoveView { snapshotter: record.snapshotter.clone(), key })?;
        let outcome = store.diff(&staged.content, record).await;
        self.note("root filesystem diff", began, outcome)
    }

    pub(super) fn order(
        &self,
        request: &Request,
        staged: &Staged,
        (base, layer, manifest): (BaseImage, Layer, Manifest),
    ) -> Order {
        Order::Publish(Box::new(PublishOrder {
            containerd: self.job.containerd.clone(),
            lease: staged.content.id().to_string(),
            base,
            layer: Some(layer),
            staging: staged.images.clone(),
            manifest,
            reference: request.reference.clone(),
            level: self.job.settings.save.compression_level,
        }))
    }

    /// Puts the GPU state back and lets the container compute: the walk down the journal to `mark`.
    pub(super) async fn give_back(&mut self, mark: usize) -> Result<()> {
        let began = Instant::now();
        let outcome = self.unwind(mark).await;
        if let Some(locked) = self.locked_at.take() {
            self.held_for = locked.elapsed();
        }
        self.note("give the GPU back", began, outcome)
    }

    /// Writes the image.
    pub(super) async fn publish(&mut self, order: Order) -> Result<Report> {
        let began = Instant::now();
        let outcome = self.job.worker.work(&order).await;
        self.note("publish the image", began, outcome)
    }

    /// Pushes the image, where that was asked for.
    pub(super) async fn push(&mut self, request: &Request) -> Result<()> {
        if !request.push {
            return Ok(());
        }
        let began = Instant::now();
        let order = Order::Push { containerd: self.job.containerd.clone(), reference: request.reference.clone() };
        let outcome = self.job.worker.work(&order).await;
        self.note("push the image", began, outcome)
            .map(drop)
            .map_err(|fault| fault.during(format!("the image is stored on this node as {}, but", request.reference)))
    }

    /// Ends the container, whose image is safely stored.
    pub(super) async fn stop(&mut self, mark: usize) -> Result<()> {
        let began = Instant::now();
        let outcome = self.stop_all(mark).await;
        self.note("stop", began, outcome)
    }

    async fn stop_all(&mut self, mark: usize) -> Result<()> {
        self.job.engine.kill_all().await?;
        // Frozen processes end when they are thawed, before they run on.
        self.unfreeze().await?;
        let deadline = Instant::now() + END_PATIENCE;
        while self.anybody_lives()? {
            if Instant::now() >= deadline {
                return Err(Fault::new(Code::Deadline, format!("stop {}", self.job.id), "its processes do not end")
                    .advise("see whether one hangs in the kernel"));
            }
            tokio::time::sleep(END_RETRY).await;
        }
        if let Some(locked) = self.locked_at.take() {
            self.held_for = locked.elapsed();
        }
        self.unwind(mark).await
    }

    /// Ends what staged the image; the image itself stays.
    pub(super) async fn keep(&mut self, staged: Staged) -> Result<()> {
        // The lease is the newest entry that is left. The image does not need it any more, and can wait for its end.
        match staged.content.release().await {
            Ok(()) => self.journal.undone(),
            Err(fault) => {
                log::warn!("{fault}");
                self.journal.postpone();
            }
        }
        self.unwind(0).await
    }

    pub(super) fn saved(&mut self, request: &Request, image: Report) -> Saved {
        Saved {
            reference: request.reference.clone(),
            image,
            gpu_bytes: self.processes.iter().map(CudaProcess::bytes).sum(),
            held_ms: millis(self.held_for),
            frozen_ms: millis(self.frozen_for),
            total_ms: millis(self.began.elapsed()),
            steps: std::mem::take(&mut self.steps),
            stopped: request.stop,
            paused: self.job.frozen && !request.stop,
            ended: !request.stop && ProcessId::now(self.job.init).is_none(),
        }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn private_folder(path: &std::path::Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(path).attempt(|| format!("make {}", path.display()))
}

fn disk_for(container: &str, folder: &std::path::Path, bytes: u64) -> Result<()> {
    let stat = nix::sys::statvfs::statvfs(folder)
        .map_err(|err| Fault::new(Code::System, format!("ask for room on {}", folder.display()), err))?;
    #[allow(clippy::unnecessary_cast)] // their widths differ between architectures
    let free = stat.blocks_available() as u64 * stat.fragment_size() as u64;
    if free < bytes + MARGIN {
        return Err(Fault::new(
            Code::NoSpace,
            format!("save {container}"),
            format!("{} bytes may be needed in {}, {free} are free", bytes + MARGIN, folder.display()),
        )
        .advise("free some, or set paths.staging to a larger disk; the container was not touched"));
    }
    Ok(())
}

fn host_memory_for(container: &str, bytes: u64) -> Result<()> {
    let text = std::fs::read_to_string("/proc/meminfo").attempt(|| "read /proc/meminfo")?;
    let available = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024);
    if available < bytes + MARGIN {
        return Err(Fault::new(
            Code::NoSpace,
            format!("save {container}"),
            format!("{} bytes of host memory are needed for its GPU memory, {available} are available", bytes + MARGIN),
        )
        .advise("free host memory; the container was not touched"));
    }
    Ok(())
}
