//! Pause, resume, checkpoint and save of one container: what the shim hands to the order of a save.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use baton_checkpoint::cgroup::Cgroup;
use baton_checkpoint::engine::{Dump, Engine as _};
use baton_checkpoint::gpu::Gpu;
use baton_checkpoint::publish::{Order, Report, VERB, Worker};
use baton_checkpoint::save::{self, Job, Request, Saved};
use baton_fault::{Attempt, Code, Fault, Result};
use baton_image::manifest::Driver;
use containerd_shim_protos::api::CheckpointTaskRequest;
use containerd_shim_protos::events::task::{TaskCheckpointed, TaskPaused, TaskResumed};
use containerd_shim_protos::topics;

use crate::children;
use crate::container::Container;
use crate::dump_options::DumpOptions;
use crate::engine::beside_the_shim;
use crate::process::Phase;
use crate::task::Shim;

/// Longest time for moving one image.
const WORK_LIMIT: Duration = Duration::from_secs(6 * 3600);

/// Freezes a container.
///
/// # Errors
/// `STATE` when it is not running.
pub async fn pause(shim: &Shim, container: &Container) -> Result<()> {
    let _work = container.work.lock().await;
    container.must_be(&[Phase::Running], "pause")?;
    let pausing = container.begin_pause();
    container.engine.pause().await?;
    set_phase(container, Phase::Paused);
    drop(pausing);
    let event = TaskPaused { container_id: container.id.clone(), ..Default::default() };
    shim.events.say(topics::TASK_PAUSED_EVENT_TOPIC, event);
    Ok(())
}

/// Thaws a container; what a checkpoint moved off its cards is brought back first.
///
/// # Errors
/// `STATE` when it is not paused, `RESTORE_MEMORY` when there is no room on a card yet: resume it again later.
pub async fn resume(shim: &Shim, container: &Container) -> Result<()> {
    let _work = container.work.lock().await;
    container.must_be(&[Phase::Paused], "resume")?;
    let held = container.held.lock().await.take();
    match held {
        None => container.engine.resume().await?,
        Some(held) => {
            let parts = Parts::gather(shim, container).await?;
            if let Err((fault, back)) = save::resume(&parts.job(shim, container), held).await {
                *container.held.lock().await = back;
                return Err(fault);
            }
        }
    }
    set_phase(container, Phase::Running);
    let event = TaskResumed { container_id: container.id.clone(), ..Default::default() };
    shim.events.say(topics::TASK_RESUMED_EVENT_TOPIC, event);
    Ok(())
}

/// containerd's Checkpoint: CRIU's images go into the folder that it names.
///
/// # Errors
/// As a save.
pub async fn checkpoint(shim: &Shim, container: &Container, request: &CheckpointTaskRequest) -> Result<()> {
    let options = DumpOptions::read(request.options.as_ref())?;
    let _work = container.work.lock().await;
    container.must_be(&[Phase::Running, Phase::Paused], "checkpoint")?;
    if container.held.lock().await.is_some() {
        return Err(Fault::new(Code::State, format!("checkpoint {}", container.id), "it is checkpointed already")
            .advise("resume it first"));
    }
    let given = (!request.path.is_empty()).then(|| PathBuf::from(&request.path));
    let images = given
        .or(options.images)
        .ok_or_else(|| Fault::new(Code::Usage, format!("checkpoint {}", container.id), "no folder was named"))?;
    let own_work = container.bundle.join("criu-work");
    let work = options.work.unwrap_or_else(|| own_work.clone());
    for folder in [&images, &work] {
        std::fs::create_dir_all(folder).attempt(|| format!("make {}", folder.display()))?;
    }
    let dump = Dump { images, work, ..options.dump };
    let parts = Parts::gather(shim, container).await?;
    let held = save::checkpoint(&parts.job(shim, container), &dump).await?;
    *container.held.lock().await = held;
    if own_work.exists()
        && let Err(err) = std::fs::remove_dir_all(&own_work)
    {
        log::warn!("remove {}: {err}", own_work.display());
    }
    let event = TaskCheckpointed {
        container_id: container.id.clone(),
        checkpoint: dump.images.display().to_string(),
        ..Default::default()
    };
    shim.events.say(topics::TASK_CHECKPOINTED_EVENT_TOPIC, event);
    Ok(())
}

/// Saves a container as an image.
///
/// # Errors
/// What failed, after it was undone.
pub async fn save_image(shim: &Shim, container: &Container, request: &Request) -> Result<Saved> {
    let _work = container.work.lock().await;
    container.must_be(&[Phase::Running, Phase::Paused], "save")?;
    if container.held.lock().await.is_some() {
        return Err(Fault::new(
            Code::State,
            format!("save {}", container.id),
            "it is checkpointed and not resumed yet",
        )
        .advise("resume it first"));
    }
    let parts = Parts::gather(shim, container).await?;
    save::save(&parts.job(shim, container), request).await
}

/// Lets go of what a checkpoint held for a container that is deleted.
pub async fn forget(shim: &Shim, container: &Container) {
    if container.held.lock().await.take().is_some() {
        let left = baton_checkpoint::journal::leftovers(&container.bundle);
        save::sweep(&left, &shim.containerd.socket, &shim.namespace).await;
    }
}

fn set_phase(container: &Container, phase: Phase) {
    let mut life = container.init.life();
    if life.phase != Phase::Stopped {
        life.phase = phase;
    }
}

/// What a save takes of the shim, gathered before it begins.
struct Parts {
    cgroup: Cgroup,
    worker: ImageWorker,
    driver: Option<Driver>,
    criu: String,
}

impl Parts {
    async fn gather(shim: &Shim, container: &Container) -> Result<Parts> {
        let driver = if container.cards.is_empty() {
            None
        } else {
            let settings = shim.settings.driver.clone();
            let inventory = crate::create::blocking(move || baton_devices::Inventory::read(&settings)).await?;
            let driver = Driver { version: inventory.driver_version, cuda_version: inventory.cuda_version };
            // Before anything is touched: whether there is an agent at all.
            shim.gpu.agent().await?;
            Some(driver)
        };
        let cgroup = Cgroup::of(container.init.life().pid)?;
        Ok(Parts { cgroup, worker: ImageWorker::new()?, driver, criu: shim.criu_version().await? })
    }

    fn job<'a>(&'a self, shim: &'a Shim, container: &'a Container) -> Job<'a> {
        let life = container.init.life();
        Job {
            id: &container.id,
            bundle: &container.bundle,
            init: life.pid,
            frozen: life.phase == Phase::Paused,
            cards: &container.cards,
            driver: self.driver.clone(),
            mounts: &container.mounts,
            criu: &self.criu,
            engine: &container.engine,
            gpu: (!container.cards.is_empty()).then_some(&shim.gpu as &dyn Gpu),
            cgroup: self.cgroup.clone(),
            worker: &self.worker,
            containerd: &shim.containerd,
            settings: &shim.settings,
        }
    }
}

/// Image work done by `baton`, as a program of its own beside the shim.
pub struct ImageWorker {
    program: PathBuf,
}

impl ImageWorker {
    /// The worker beside the shim.
    ///
    /// # Errors
    /// `SYSTEM` when the shim cannot find itself.
    pub fn new() -> Result<ImageWorker> {
        Ok(ImageWorker { program: beside_the_shim("baton")? })
    }
}

#[async_trait]
impl Worker for ImageWorker {
    async fn work(&self, order: &Order) -> Result<Report> {
        let what = "work on an image";
        let input = serde_json::to_vec(order).map_err(|err| Fault::new(Code::System, what, err))?;
        let mut command = std::process::Command::new(&self.program);
        command.arg(VERB);
        let finished = children::run(command, Some(input), WORK_LIMIT).await?;
        if finished.status == 0 {
            return serde_json::from_slice(&finished.stdout).map_err(|err| Fault::new(Code::Unavailable, what, err));
        }
        let stderr = String::from_utf8_lossy(&finished.stderr);
        let line = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let line = line.strip_prefix("baton: ").unwrap_or(line);
        Err(Fault::parse(line).unwrap_or_else(|| {
            Fault::new(Code::Unavailable, what, format!("{line} (exit status {})", finished.status))
        }))
    }
}
