//! The walk down the journal: after a failure it undoes what was done, after a success it gives the GPU back.

use std::path::Path;
use std::time::{Duration, Instant};

use baton_fault::{Attempt, Code, Fault, Result};

use super::Saving;
use crate::cgroup::MemoryLimit;
use crate::gpu::{self, CudaState, STATE_DEADLINE, Share, UNLOCK_DEADLINE};
use crate::journal::Undo;
use crate::processes::ProcessId;
use crate::publish::Containerd;
use crate::room;

/// Longest wait for the kernel to put a memory limit back.
const LOWER_PATIENCE: Duration = Duration::from_secs(5);
/// How often tidying up is tried again at the end of a save, and how long it is waited before each try.
const TIDY_TRIES: usize = 10;
const TIDY_RETRY: Duration = Duration::from_millis(500);

impl Saving<'_> {
    /// Undoes everything, and says `fault` together with what became of the container.
    pub(super) async fn fail(mut self, fault: Fault) -> Fault {
        let undone = self.undo_all().await;
        let what = format!("save {}", self.job.id);
        let ended = ProcessId::now(self.job.init).is_none();
        self.finish().await;
        match undone {
            Err(lost) if !ended => {
                Fault::new(Code::CrLost, what, format!("it failed ({fault}) and could not be undone ({lost})"))
                    .advise("kill the container and restore its last checkpoint")
            }
            _ => {
                let became = if ended { "has ended meanwhile" } else { "goes on" };
                fault.during(format!("{what} (the container {became})"))
            }
        }
    }

    /// Ends a save. What could not be tidied up before, as when containerd was restarting, is tried a few times more.
    pub(super) async fn finish(mut self) {
        for _ in 0..TIDY_TRIES {
            let waiting = self.journal.postponed();
            if waiting.is_empty() {
                break;
            }
            tokio::time::sleep(TIDY_RETRY).await;
            for undo in waiting {
                match forget(&undo, self.job.containerd).await {
                    Ok(()) => self.journal.made_up_for(&undo),
                    Err(fault) => log::warn!("tidying up after a save, {undo:?}: {fault}"),
                }
            }
        }
        self.journal.end();
    }

    /// Undoes what lies above `mark`, newest first, up to the first that fails; that one stays in the journal, to be
    /// tried again. What can wait is left for later when it fails.
    pub(super) async fn unwind(&mut self, mark: usize) -> Result<()> {
        while let Some(undo) = self.journal.next_above(mark) {
            match self.undo(&undo).await {
                Ok(()) => self.journal.undone(),
                Err(fault) if undo.can_wait() => {
                    log::warn!("undo of {undo:?}: {fault}");
                    self.journal.postpone();
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Undoes everything, newest first. Each entry is tried whatever became of the others: one process that is lost
    /// must not keep the rest locked. The first fault is returned.
    async fn undo_all(&mut self) -> Result<()> {
        let mut first = Ok(());
        while let Err(fault) = self.unwind(0).await {
            log::error!("undo of {:?}: {fault}", self.journal.next_above(0));
            self.journal.undone();
            first = first.and(Err(fault));
        }
        first
    }

    async fn undo(&mut self, undo: &Undo) -> Result<()> {
        match undo {
            Undo::Thaw => self.unfreeze().await,
            Undo::RestoreGpu { process, shares } => self.bring_back(*process, shares).await,
            Undo::Unlock { process } => self.unlock(*process).await,
            Undo::LowerMemoryLimit { file, bytes } => {
                self.lower(file, *bytes).await;
                Ok(())
            }
            Undo::Freeze if self.freeze_again && self.anybody_lives()? => self.job.engine.pause().await,
            Undo::Freeze => Ok(()),
            Undo::RemoveStaging { .. } | Undo::DeleteContentLease { .. } | Undo::RemoveView { .. } => {
                forget(undo, self.job.containerd).await
            }
        }
    }

    pub(super) fn anybody_lives(&self) -> Result<bool> {
        Ok(self.job.cgroup.pids()?.into_iter().any(|pid| ProcessId::now(pid).is_some()))
    }

    /// Thaws the container. The engine may refuse, by its own idea of the container's state; what counts is what the
    /// kernel says.
    pub(super) async fn unfreeze(&mut self) -> Result<()> {
        if self.anybody_lives()?
            && let Err(fault) = self.job.engine.resume().await
        {
            log::warn!("{fault}");
        }
        let outcome = self.job.cgroup.thaw().await;
        if let Some(frozen) = self.frozen_at.take() {
            self.frozen_for = frozen.elapsed();
        }
        outcome
    }

    /// Back onto the card: only when there is room, because a restore that finds none ruins the process for good.
    async fn bring_back(&self, process: ProcessId, shares: &[Share]) -> Result<()> {
        match self.bring_back_living(process, shares).await {
            // A process that was killed meanwhile has nothing to be brought back.
            Err(_) if !process.lives() => Ok(()),
            outcome => outcome,
        }
    }

    async fn bring_back_living(&self, process: ProcessId, shares: &[Share]) -> Result<()> {
        if !process.lives() {
            return Ok(());
        }
        let gpu = self.gpu()?;
        // A checkpoint that overran its deadline may still be under way: its outcome is known by the state alone.
        let bytes: u64 = shares.iter().map(|share| share.bytes).sum();
        let deadline = self.job.settings.save.gpu_deadline(bytes);
        match settled(gpu, process, deadline).await? {
            CudaState::Checkpointed => {}
            CudaState::Locked | CudaState::Running => return Ok(()),
            state => return Err(lost(process, &format!("the driver says {state}"))),
        }
        room::wait_for(gpu, shares, self.room_patience).await?;
        // The container may have been killed while it waited.
        if !process.lives() {
            return Ok(());
        }
        match gpu.restore(process.pid, &[], deadline).await {
            Ok(()) => gpu::must_be(gpu, process, CudaState::Locked, "the restore").await,
            Err(fault) => Err(lost(process, &fault.to_string())),
        }
    }

    /// A limit that stays raised costs no job; one that waits for ever would.
    async fn lower(&self, file: &Path, bytes: u64) {
        let limit = MemoryLimit { file: file.to_path_buf(), bytes };
        if let Err(fault) = limit.lower(LOWER_PATIENCE).await {
            log::error!("the memory limit of {} stays raised: {fault}", self.job.id);
        }
    }

    async fn unlock(&self, process: ProcessId) -> Result<()> {
        if !process.lives() {
            return Ok(());
        }
        let gpu = self.gpu()?;
        let outcome = match settled(gpu, process, STATE_DEADLINE).await {
            Ok(CudaState::Locked) => match gpu.unlock(process.pid, UNLOCK_DEADLINE).await {
                Ok(()) => gpu::must_be(gpu, process, CudaState::Running, "the unlock").await,
                Err(fault) => Err(fault),
            },
            Ok(CudaState::Running) => Ok(()),
            Ok(state) => Err(lost(process, &format!("it is {state} and cannot be unlocked"))),
            Err(fault) => Err(fault),
        };
        if process.lives() { outcome } else { Ok(()) }
    }
}

/// The state of a process once no call on it is under way any more.
async fn settled(gpu: &dyn gpu::Gpu, process: ProcessId, patience: Duration) -> Result<CudaState> {
    let deadline = Instant::now() + patience;
    loop {
        match gpu.state(process.pid).await {
            Err(fault) if fault.code == Code::Deadline && Instant::now() < deadline && process.lives() => {}
            other => return other,
        }
    }
}

fn lost(process: ProcessId, why: &str) -> Fault {
    Fault::new(Code::CrLost, format!("bring process {} back onto its card", process.pid), why)
        .advise("kill the container and restore its last checkpoint")
}

/// Undoes what is not in a process: staging, content, snapshots.
async fn forget(undo: &Undo, containerd: &Containerd) -> Result<()> {
    match undo {
        Undo::RemoveStaging { folder } => match std::fs::remove_dir_all(folder) {
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.attempt(|| format!("remove {}", folder.display())),
        },
        Undo::DeleteContentLease { id } => containerd.connect().await?.delete_lease(id).await,
        Undo::RemoveView { snapshotter, key } => containerd.connect().await?.remove_view(snapshotter, key).await,
        _ => Ok(()),
    }
}

/// Removes what a save left that was cut off with its shim; the container's processes are gone by then.
pub async fn sweep(leftovers: &[Undo], containerd: &Path, namespace: &str) {
    let containerd = Containerd { socket: containerd.to_path_buf(), namespace: namespace.to_string() };
    for undo in leftovers {
        if let Err(fault) = forget(undo, &containerd).await {
            log::error!("undo of {undo:?}: {fault}");
        }
    }
}
