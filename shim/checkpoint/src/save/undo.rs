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

impl Saving<'_> {
    /// Undoes everything, and says `fault` together with what became of the container.
    pub(super) async fn fail(mut self, fault: Fault) -> Fault {
        let undone = self.undo_all().await;
        let what = format!("save {}", self.job.id);
        match undone {
            Ok(()) => {
                let became = if ProcessId::now(self.job.init).is_some() { "goes on" } else { "has ended meanwhile" };
                self.end();
                fault.during(format!("{what} (the container {became})"))
            }
            Err(lost) => {
                Fault::new(Code::CrLost, what, format!("it failed ({fault}) and could not be undone ({lost})"))
                    .advise("kill the container and restore its last checkpoint")
            }
        }
    }

    /// Undoes what lies above `mark`, newest first, up to the first that fails; that one stays in the journal, to be
    /// tried again.
    pub(super) async fn unwind(&mut self, mark: usize) -> Result<()> {
        while let Some(undo) = self.journal.next_above(mark) {
            self.undo(&undo).await?;
            self.journal.undone();
        }
        Ok(())
    }

    /// Undoes everything, newest first. Each entry is tried whatever became of the others: one process that is lost
    /// must not keep the rest locked. The first fault is returned.
    async fn undo_all(&mut self) -> Result<()> {
        let mut first = Ok(());
        while let Some(undo) = self.journal.next_above(0) {
            let outcome = self.undo(&undo).await;
            if let Err(fault) = &outcome {
                log::error!("undo of {undo:?}: {fault}");
            }
            self.journal.undone();
            first = first.and(outcome);
        }
        first
    }

    async fn undo(&mut self, undo: &Undo) -> Result<()> {
        match undo {
            Undo::Thaw => self.unfreeze().await,
            Undo::RestoreGpu { process, shares } => self.bring_back(*process, shares).await,
            Undo::Unlock { process } => self.unlock(*process).await,
            Undo::LowerMemoryLimit { file, bytes } => lower(file, *bytes),
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

    pub(super) async fn unfreeze(&mut self) -> Result<()> {
        let outcome = if self.anybody_lives()? { self.job.engine.resume().await } else { Ok(()) };
        // It may have ended between the look and the call.
        let outcome = if outcome.is_err() && !self.anybody_lives()? { Ok(()) } else { outcome };
        if let Some(frozen) = self.frozen_at.take() {
            self.frozen_for = frozen.elapsed();
        }
        outcome
    }

    /// Back onto the card: only when there is room, because a restore that finds none ruins the process for good.
    async fn bring_back(&self, process: ProcessId, shares: &[Share]) -> Result<()> {
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
            Err(_) if !process.lives() => Ok(()),
            Err(fault) => Err(lost(process, &fault.to_string())),
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

fn lower(file: &Path, bytes: u64) -> Result<()> {
    match (MemoryLimit { file: file.to_path_buf(), bytes }).set() {
        // The cgroup went with the container.
        Err(_) if !file.exists() => Ok(()),
        other => other,
    }
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
