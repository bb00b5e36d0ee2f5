//! A save, in the order of the design:
//!
//! preflight → lease on the GPU → (thaw) → lock every CUDA process → list again → checkpoint each → verify →
//! freeze → CRIU dump, left running → root filesystem diff → restore and unlock, or stop → publish the image.
//!
//! **The promise:** after any save, successful or not, every process of the container is either gone because a
//! stop was asked for and the image is safely stored, or running and answering. What undoes a step is in the
//! journal before the step is taken, and giving the GPU back after a success is the same walk down the journal as
//! undoing a failure.

mod steps;
#[cfg(test)]
mod tests;
mod undo;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_config::Settings;
use baton_devices::Card;
use baton_fault::{Code, Fault, Result};
use baton_image::manifest::Driver;
use baton_image::{BaseImage, ContainerRecord, Store};
use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroup;
use crate::engine::{Dump, Engine};
use crate::gpu::{CudaProcess, Gpu};
use crate::journal::Journal;
use crate::lease::Lease;
use crate::publish::{Containerd, Report, Worker};

pub use undo::sweep;

/// How long a process waits for room on its cards before a save gives it up. The lease keeps Baton's own jobs off, so
/// only a stranger can be in the way, and the longer it is waited the fewer jobs are lost.
const ROOM_PATIENCE: Duration = Duration::from_secs(600);
/// The same when containerd resumes a checkpointed container: it can resume again later.
const RESUME_PATIENCE: Duration = Duration::from_secs(60);

/// The container that is saved, and the parts of the world that it takes.
pub struct Job<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its bundle.
    pub bundle: &'a Path,
    /// Its first process.
    pub init: u32,
    /// Its cgroup.
    pub cgroup: Cgroup,
    /// Whether it is frozen now.
    pub frozen: bool,
    /// The cards it has.
    pub cards: &'a [Card],
    /// The driver that they have; present when it has cards.
    pub driver: Option<Driver>,
    /// Destinations of its mounts.
    pub mounts: &'a [String],
    /// CRIU's version on this node.
    pub criu: &'a str,
    /// Its engine.
    pub engine: &'a dyn Engine,
    /// The driver's checkpoint calls; present when it has cards.
    pub gpu: Option<&'a dyn Gpu>,
    /// Image work in a process of its own.
    pub worker: &'a dyn Worker,
    /// Where its image goes.
    pub containerd: &'a Containerd,
    /// The node's settings.
    pub settings: &'a Settings,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Name of the image.
    pub reference: String,
    /// End the container once the image is safely stored.
    pub stop: bool,
    /// Push the image to its registry.
    pub push: bool,
}

/// How long one step took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The step.
    pub name: String,
    /// Milliseconds.
    pub ms: u64,
}

/// A save that succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Name of the image.
    pub reference: String,
    /// The image.
    pub image: Report,
    /// Bytes that were on the cards.
    pub gpu_bytes: u64,
    /// Milliseconds from the first lock until the container computed again, or was stopped.
    pub held_ms: u64,
    /// Milliseconds during which no process of the container ran.
    pub frozen_ms: u64,
    /// Milliseconds in all.
    pub total_ms: u64,
    /// Each step.
    pub steps: Vec<Step>,
    /// Whether the container was stopped.
    pub stopped: bool,
    /// Whether it was paused before, and still is.
    pub paused: bool,
    /// Whether it ended by itself, or was killed by somebody else, while it was being saved.
    pub ended: bool,
}

/// A save under way.
pub(crate) struct Saving<'a> {
    job: &'a Job<'a>,
    journal: Journal,
    lease: Option<Lease>,
    processes: Vec<CudaProcess>,
    began: Instant,
    steps: Vec<Step>,
    locked_at: Option<Instant>,
    frozen_at: Option<Instant>,
    frozen_for: Duration,
    held_for: Duration,
    room_patience: Duration,
    /// Whether a container that was frozen before is frozen again at the end; not when it is being resumed.
    freeze_again: bool,
}

/// Saves a container as an image.
///
/// # Errors
/// What failed, after everything that had been done was undone; `CR_LOST` when the driver could not put a process
/// back.
pub async fn save(job: &Job<'_>, request: &Request) -> Result<Saved> {
    baton_image::check_reference(&request.reference)?;
    if job.cards.is_empty() {
        return Err(Fault::new(Code::NoGpu, format!("save {}", job.id), "the container has no GPU")
            .advise("`ctr container checkpoint` saves a container without one"));
    }
    let mut saving = Saving::begin(job)?;
    match saving.all_steps(request).await {
        Ok(saved) => {
            saving.finish().await;
            Ok(saved)
        }
        Err(fault) => Err(saving.fail(fault).await),
    }
}

impl Saving<'_> {
    /// The order of a save.
    async fn all_steps(&mut self, request: &Request) -> Result<Saved> {
        let (store, record, base) = self.look_up().await?;
        let need = self.preflight().await?;
        self.lease().await?;
        let staged = self.stage(&store, need).await?;
        let out = self.journal.depth();
        self.take_off_the_card().await?;
        let manifest = self.describe(&base, &record).await?;
        self.dump(&staged, need).await?;
        let layer = self.diff(&store, &staged, &record).await?;
        let order = self.order(request, &staged, (base, layer, manifest));
        let report = if request.stop {
            let report = self.publish(order).await?;
            self.push(request).await?;
            self.stop(out).await?;
            report
        } else {
            self.give_back(out).await?;
            self.publish(order).await?
        };
        self.keep(staged).await?;
        if !request.stop {
            self.push(request).await?;
        }
        Ok(self.saved(request, report))
    }
}

/// A checkpoint whose GPU part is still off the card: containerd asked for it on a paused container, and resumes
/// the container when it has taken the root filesystem's changes.
pub struct Held {
    journal: Journal,
    lease: Option<Lease>,
}

/// Writes CRIU's images of a container into a folder, as containerd's Checkpoint asks. A container that was frozen
/// stays frozen, and what has to happen before it computes again is handed back as [`Held`]; one that ran goes on.
///
/// # Errors
/// As [`save`].
pub async fn checkpoint(job: &Job<'_>, dump: &Dump) -> Result<Option<Held>> {
    let mut saving = Saving::begin(job)?;
    match saving.checkpoint_steps(dump).await {
        // Without cards nothing is held: the resume that containerd asks for next thaws it.
        Ok(()) if job.frozen && dump.leave_running && !job.cards.is_empty() => Ok(Some(saving.hold())),
        Ok(()) => match saving.give_back(0).await {
            Ok(()) => {
                saving.finish().await;
                Ok(None)
            }
            Err(fault) => Err(saving.fail(fault).await),
        },
        Err(fault) => Err(saving.fail(fault).await),
    }
}

impl Saving<'_> {
    /// The part of the order in which the job leaves its cards: what was on them is in its processes afterwards, and
    /// they stand still.
    async fn take_off_the_card(&mut self) -> Result<()> {
        self.thaw().await?;
        self.lock_all().await?;
        self.raise_memory_limit()?;
        self.checkpoint_all().await?;
        self.verify_gone_from_the_card().await?;
        self.freeze().await
    }

    /// The order of a save up to the dump.
    async fn checkpoint_steps(&mut self, dump: &Dump) -> Result<()> {
        let need = self.preflight().await?;
        self.lease().await?;
        self.take_off_the_card().await?;
        self.dump_into(dump, need).await
    }

    fn hold(self) -> Held {
        Held { journal: self.journal, lease: self.lease }
    }
}

/// Lets a held container compute again.
///
/// # Errors
/// `RESTORE_MEMORY` when there is no room on the card (try again later: `held` comes back), `CR_LOST`.
pub async fn resume(job: &Job<'_>, held: Held) -> std::result::Result<(), (Fault, Option<Held>)> {
    let mut saving = Saving::again(job, held);
    saving.room_patience = RESUME_PATIENCE;
    saving.freeze_again = false;
    match saving.give_back(0).await {
        Ok(()) => {
            saving.finish().await;
            Ok(())
        }
        Err(fault) => Err((fault, Some(saving.hold()))),
    }
}

/// Where a save stages what goes into the image.
pub(crate) struct Staged {
    images: PathBuf,
    work: PathBuf,
    content: baton_image::Lease,
}

impl Staged {
    fn dump(&self) -> Dump {
        Dump { images: self.images.clone(), work: self.work.clone(), leave_running: true, ..Dump::default() }
    }
}

type LookedUp = (Store, ContainerRecord, BaseImage);
