//! One container of the shim.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use baton_checkpoint::save::Held;
use baton_devices::Card;
use baton_fault::{Code, Fault, Result};
use containerd_shim_protos::events::task::TaskExit;
use containerd_shim_protos::topics;
use time::OffsetDateTime;

use crate::children::{ExitWatch, Streams};
use crate::create::Restorable;
use crate::engine::Engine;
use crate::events::Events;
use crate::process::{Exit, Phase, Process};
use crate::stdio;
use crate::task::Shim;

/// One container of the shim.
pub struct Container {
    /// Its name in containerd's namespace.
    pub id: String,
    /// Its bundle.
    pub bundle: PathBuf,
    /// The engine that runs it.
    pub engine: Engine,
    /// Its first process.
    pub init: Arc<Process>,
    /// The cards that were injected, empty for a container without GPU.
    pub cards: Vec<Card>,
    /// Destinations of its mounts.
    pub mounts: Vec<String>,
    /// What it is restored from at Start, where it is not simply started.
    pub restorable: Option<Restorable>,
    /// One slow change at a time: start, pause, checkpoint, save. Never held by State, Kill, Wait or Pids.
    pub work: tokio::sync::Mutex<()>,
    /// A checkpoint whose GPU part is still off the card, until Resume.
    pub held: tokio::sync::Mutex<Option<Held>>,
    execs: Mutex<HashMap<String, Arc<Process>>>,
}

impl Container {
    /// A container whose init is known but not running.
    pub fn new(
        id: &str,
        bundle: PathBuf,
        engine: Engine,
        init: Process,
        cards: Vec<Card>,
        restorable: Option<Restorable>,
        mounts: Vec<String>,
    ) -> Container {
        Container {
            id: id.to_string(),
            bundle,
            engine,
            init: Arc::new(init),
            cards,
            mounts,
            restorable,
            work: tokio::sync::Mutex::new(()),
            held: tokio::sync::Mutex::new(None),
            execs: Mutex::new(HashMap::new()),
        }
    }

    fn execs(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Process>>> {
        // A panic while it was held leaves a map with or without one entry, both valid.
        self.execs.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The process of that name; the empty name is the init.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn process(&self, exec_id: &str) -> Result<Arc<Process>> {
        if exec_id.is_empty() {
            return Ok(self.init.clone());
        }
        self.execs().get(exec_id).cloned().ok_or_else(|| {
            Fault::new(Code::NotFound, format!("process {exec_id} of container {}", self.id), "there is none")
        })
    }

    /// Adds a process that is to run later.
    ///
    /// # Errors
    /// `EXISTS` when there is one of that name.
    pub fn add_exec(&self, process: Process) -> Result<()> {
        let mut execs = self.execs();
        if execs.contains_key(&process.exec_id) {
            return Err(Fault::new(
                Code::Exists,
                format!("add process {} to container {}", process.exec_id, self.id),
                "there is one of that name",
            )
            .advise("choose another exec id"));
        }
        execs.insert(process.exec_id.clone(), Arc::new(process));
        Ok(())
    }

    /// Forgets a process that was executed.
    pub fn remove_exec(&self, exec_id: &str) {
        self.execs().remove(exec_id);
    }

    /// Names of the executed processes by pid.
    pub fn exec_pids(&self) -> HashMap<u32, String> {
        self.execs().values().map(|process| (process.life().pid, process.exec_id.clone())).collect()
    }

    /// Whether a process has been said to run and has not ended.
    ///
    /// # Errors
    /// `STATE`, naming what it is instead.
    pub fn must_be(&self, allowed: &[Phase], verb: &str) -> Result<()> {
        let phase = self.init.life().phase;
        if allowed.contains(&phase) {
            return Ok(());
        }
        let is = match phase {
            Phase::Created => "created and not started",
            Phase::Starting => "starting",
            Phase::Running => "running",
            Phase::Paused => "paused",
            Phase::Stopped => "stopped: the process has already finished",
        };
        Err(Fault::new(Code::State, format!("{verb} container {}", self.id), format!("it is {is}"))
            .advise("`ctr task ls` shows the state that it is in"))
    }
}

/// Has `run` make a process with the streams that containerd wants, and watches for its end, which is said at once,
/// or, while the start is under way, once the start has been said.
///
/// # Errors
/// What `run` says; the streams are let go of then.
pub async fn watched(
    shim: &Shim,
    container: &Arc<Container>,
    process: &Arc<Process>,
    run: impl AsyncFnOnce(Streams, Option<PathBuf>) -> Result<u32>,
) -> Result<u32> {
    let watch = ExitWatch::begin().await?;
    match stdio::attached(&shim.settings.paths.run.join("tty"), process, run).await {
        Ok(pid) => {
            let (id, process, events) = (container.id.clone(), process.clone(), shim.events.clone());
            tokio::spawn(async move {
                let status = watch.wait(pid).await;
                let exit = Exit { status: u32::try_from(status).unwrap_or(255), at: OffsetDateTime::now_utc() };
                process.ended(exit, |exit| say_exit(&id, &process.exec_id, pid, exit, &events));
            });
            Ok(pid)
        }
        Err(fault) => {
            watch.forget().await;
            process.io.abort().await;
            Err(fault)
        }
    }
}

/// Says that a process has ended.
pub fn say_exit(container: &str, exec_id: &str, pid: u32, exit: Exit, events: &Events) {
    let id = if exec_id.is_empty() { container } else { exec_id };
    events.say(
        topics::TASK_EXIT_EVENT_TOPIC,
        TaskExit {
            container_id: container.to_string(),
            id: id.to_string(),
            pid,
            exit_status: exit.status,
            exited_at: Some(containerd_shim::util::convert_to_timestamp(Some(exit.at))).into(),
            ..TaskExit::default()
        },
    );
}
