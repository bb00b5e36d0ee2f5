//! Start: the made init begins, an added process is executed, or a checkpoint is restored.

use std::path::PathBuf;
use std::sync::Arc;

use baton_checkpoint::cgroup::Cgroup;
use baton_checkpoint::gpu::Gpu;
use baton_checkpoint::restore::{Restoration, restore};
use baton_fault::{Attempt, Code, Fault, Result};
use baton_image::Checkpoint;
use containerd_shim_protos::events::task::{TaskExecStarted, TaskStart};
use containerd_shim_protos::topics;

use crate::container::{Container, say_exit, watched};
use crate::create::Restorable;
use crate::headroom::Headroom;
use crate::kill;
use crate::process::{Phase, Process};
use crate::save::ImageWorker;
use crate::task::Shim;

/// Starts the init or the process of that name; gives its pid.
///
/// # Errors
/// `STATE` when it was started before, or what the engine or the driver say.
pub async fn start(shim: &Shim, container: &Arc<Container>, exec_id: &str) -> Result<u32> {
    let process = container.process(exec_id)?;
    if !exec_id.is_empty() {
        container.must_be(&[Phase::Created, Phase::Running], "execute a process in")?;
        container.begin_exec()?;
    }
    let outcome = match process.begin_start() {
        Ok(()) => begin(shim, container, &process).await,
        Err(phase) => {
            let is = format!("it is {phase:?} already");
            return Err(Fault::new(Code::State, format!("start a process of {}", container.id), is)
                .advise("`ctr task ls` shows the state that it is in"))
            .inspect_err(|_| over(container, exec_id));
        }
    };
    let (id, events) = (&container.id, &shim.events);
    match outcome {
        Ok(pid) => {
            let pending = process.started(
                pid,
                || say_started(shim, id, exec_id, pid),
                |exit| say_exit(id, exec_id, pid, exit, events),
            );
            kill::deliver(container, &process, &pending).await;
            Ok(pid)
        }
        Err(fault) => {
            let pid = process.life().pid;
            let pending = process.start_failed(|exit| say_exit(id, exec_id, pid, exit, events));
            over(container, exec_id);
            if let Some(signal) = pending.first() {
                kill::end_unstarted(shim, container, &process, *signal);
            }
            Err(fault)
        }
    }
}

/// An executed process that is not started counts no more.
fn over(container: &Container, exec_id: &str) {
    if !exec_id.is_empty() {
        container.exec_over();
    }
}

async fn begin(shim: &Shim, container: &Arc<Container>, process: &Arc<Process>) -> Result<u32> {
    if !process.exec_id.is_empty() {
        return execute(shim, container, process).await;
    }
    let _work = container.work.lock().await;
    match &container.restorable {
        None => container.engine.start().await.map(|()| process.life().pid),
        Some(Restorable::Image(checkpoint)) => restore_image(shim, container, checkpoint).await,
        Some(Restorable::Folder(images)) => restore_folder(shim, container, images.clone()).await,
    }
}

fn say_started(shim: &Shim, id: &str, exec_id: &str, pid: u32) {
    if exec_id.is_empty() {
        let event = TaskStart { container_id: id.to_string(), pid, ..TaskStart::default() };
        shim.events.say(topics::TASK_START_EVENT_TOPIC, event);
    } else {
        let event = TaskExecStarted {
            container_id: id.to_string(),
            exec_id: exec_id.to_string(),
            pid,
            ..TaskExecStarted::default()
        };
        shim.events.say(topics::TASK_EXEC_STARTED_EVENT_TOPIC, event);
    }
}

/// Where the OCI process of an exec is written.
pub fn process_file(container: &Container, exec_id: &str) -> PathBuf {
    container.bundle.join(format!("exec-{exec_id}.json"))
}

async fn execute(shim: &Shim, container: &Arc<Container>, process: &Arc<Process>) -> Result<u32> {
    let spec = process_file(container, &process.exec_id);
    let pid_file = container.bundle.join(format!("exec-{}.pid", process.exec_id));
    let executed = watched(shim, container, process, async |streams, console| {
        container.engine.exec(&spec, &pid_file, streams, console.as_deref()).await
    })
    .await;
    for file in [&spec, &pid_file] {
        if let Err(err) = std::fs::remove_file(file)
            && err.kind() != std::io::ErrorKind::NotFound
        {
            log::warn!("remove {}: {err}", file.display());
        }
    }
    executed
}

async fn restore_image(shim: &Shim, container: &Arc<Container>, checkpoint: &Checkpoint) -> Result<u32> {
    let worker = ImageWorker::new()?;
    let restoration = Restoration {
        id: &container.id,
        bundle: &container.bundle,
        checkpoint,
        cards: &container.cards,
        gpu: (!container.cards.is_empty()).then_some(&shim.gpu as &dyn Gpu),
        worker: &worker,
        containerd: &shim.containerd,
        settings: &shim.settings,
    };
    // What was on the cards is in the processes until it is back on a card.
    let moved = checkpoint.manifest.gpus.iter().map(|gpu| gpu.memory_used).sum();
    let headroom = Headroom::raise(&container.bundle, moved)?;
    let outcome = restore(&restoration, |images, work| engine_restore(shim, container, images, work)).await;
    let outcome = match (outcome, headroom) {
        (Ok(init), Some(headroom)) => headroom.lower(init).await.map(|()| init),
        (outcome, _) => outcome,
    };
    cleaned(container, outcome).await
}

async fn restore_folder(shim: &Shim, container: &Arc<Container>, images: PathBuf) -> Result<u32> {
    let work = container.criu_work.clone().unwrap_or_else(|| container.bundle.join("criu-work"));
    std::fs::create_dir_all(&work).attempt(|| format!("make {}", work.display()))?;
    let outcome = match engine_restore(shim, container, images, work).await {
        Ok(init) => nothing_off_the_card(shim, container, init).await.map(|()| init),
        Err(fault) => Err(fault),
    };
    cleaned(container, outcome).await
}

/// A folder of CRIU's images does not say which cards its processes had, so GPU state in them cannot be brought back:
/// such a process would wait for its card for ever.
async fn nothing_off_the_card(shim: &Shim, container: &Container, init: u32) -> Result<()> {
    if container.cards.is_empty() {
        return Ok(());
    }
    for pid in Cgroup::of(init)?.pids()? {
        if shim.gpu.is_cuda(pid).await? {
            return Err(Fault::new(
                Code::CrUnsupported,
                format!("restore {} from a folder", container.id),
                format!("its process {pid} has GPU state, which only a checkpoint image of Baton's brings back"),
            )
            .advise("save it with `baton save` and run that image"));
        }
    }
    Ok(())
}

/// A failed restore kills the half-restored tree; the image is as it was.
async fn cleaned(container: &Container, outcome: Result<u32>) -> Result<u32> {
    if outcome.is_err()
        && let Err(fault) = container.engine.delete(true).await
        && fault.code != Code::NotFound
    {
        log::error!("removal of the half-restored {}: {fault}", container.id);
    }
    outcome
}

async fn engine_restore(shim: &Shim, container: &Arc<Container>, images: PathBuf, work: PathBuf) -> Result<u32> {
    let restored = watched(shim, container, &container.init, async |streams, console| {
        container.engine.restore(&images, &work, streams, console.as_deref()).await
    });
    let pid = restored.await?;
    if let Err(fault) = container.note_place(pid, &shim.events) {
        // It has ended already; its end will be said.
        log::info!("{fault}");
    }
    Ok(pid)
}
