//! One container of the shim.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use baton_checkpoint::cgroup::Cgroup;
use baton_checkpoint::save::Held;
use baton_devices::{Card, Config};
use baton_fault::{Code, Fault, Result};
use containerd_shim_protos::events::task::TaskExit;
use containerd_shim_protos::topics;
use time::OffsetDateTime;
use tokio::sync::watch;

use crate::children::{ExitWatch, Streams};
use crate::create::Restorable;
use crate::engine::Engine;
use crate::events::Events;
use crate::hierarchy::Hierarchy;
use crate::logger::Owner;
use crate::oom::Shortage;
use crate::options::Options;
use crate::process::{Exit, Phase, Process};
use crate::stdio::{self, Attachment};
use crate::task::Shim;

/// Longest wait for the ends of executed processes before the end of the init is said.
const EXECS_PATIENCE: Duration = Duration::from_secs(30);

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
    /// Whether the kernel ends its other processes when its init ends.
    own_pids: bool,
    /// User and group that own its ends of the pipes of its processes.
    io_user: (u32, u32),
    /// CRIU's folder for its log and statistics, where the options name one.
    pub criu_work: Option<PathBuf>,
    /// Its cgroup, once its init is made.
    place: OnceLock<Place>,
    /// What it is restored from at Start, where it is not simply started.
    pub restorable: Option<Restorable>,
    /// One slow change at a time: start, pause, checkpoint, save. Never held by State, Kill, Wait or Pids.
    pub work: tokio::sync::Mutex<()>,
    /// A checkpoint whose GPU part is still off the card, until Resume.
    pub held: tokio::sync::Mutex<Option<Held>>,
    execs: Mutex<HashMap<String, Arc<Process>>>,
    /// How many executed processes run or are being started; none are started any more once the init has gone.
    active: watch::Sender<Active>,
    pausing: AtomicBool,
}

/// Where a container is among the cgroups.
struct Place {
    cgroup: Cgroup,
    hierarchy: Hierarchy,
    shortage: Arc<Shortage>,
}

/// Executed processes of a container that run or are being started.
#[derive(Clone, Copy, Debug, Default)]
struct Active {
    execs: usize,
    init_gone: bool,
}

/// A container is being frozen as long as this lives.
pub struct Pausing<'a>(&'a AtomicBool);

impl Drop for Pausing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Container {
    /// A container whose init is being made.
    pub fn new(
        id: &str,
        engine: Engine,
        init: Process,
        config: &Config,
        cards: Vec<Card>,
        restorable: Option<Restorable>,
        options: &Options,
    ) -> Container {
        Container {
            id: id.to_string(),
            bundle: engine.bundle().to_path_buf(),
            engine,
            init: Arc::new(init),
            cards,
            mounts: config.mounts(),
            own_pids: has_own_pids(config),
            io_user: (options.io_uid, options.io_gid),
            criu_work: options.criu_work_path.clone(),
            restorable,
            place: OnceLock::new(),
            work: tokio::sync::Mutex::new(()),
            held: tokio::sync::Mutex::new(None),
            execs: Mutex::new(HashMap::new()),
            active: watch::Sender::new(Active::default()),
            pausing: AtomicBool::new(false),
        }
    }

    /// Notes where its init, which has just been made, is among the cgroups, and watches its memory.
    ///
    /// # Errors
    /// `NOT_FOUND` when it has ended already.
    pub fn note_place(&self, pid: u32, events: &Events) -> Result<()> {
        let hierarchy = Hierarchy::of(pid)?;
        let shortage = Shortage::watch(&self.id, &hierarchy, events);
        // A second start of the same container finds it where it was.
        let _ = self.place.set(Place { cgroup: Cgroup::of(pid)?, hierarchy, shortage });
        Ok(())
    }

    /// The folders of its cgroup.
    ///
    /// # Errors
    /// `NOT_FOUND` before its init is made.
    pub fn hierarchy(&self) -> Result<&Hierarchy> {
        self.place.get().map(|place| &place.hierarchy).ok_or_else(|| {
            Fault::new(Code::NotFound, format!("find the cgroup of {}", self.id), "it has none yet")
                .advise("start it first")
        })
    }

    /// Thaws it, whoever froze it.
    ///
    /// # Errors
    /// `DEADLINE` when it stays frozen.
    async fn thaw(&self) -> Result<()> {
        match self.place.get() {
            Some(place) => place.cgroup.thaw().await,
            None => Ok(()),
        }
    }

    /// Says that it is about to be frozen.
    pub fn begin_pause(&self) -> Pausing<'_> {
        self.pausing.store(true, Ordering::Relaxed);
        Pausing(&self.pausing)
    }

    /// Whether it is about to be frozen.
    pub fn is_pausing(&self) -> bool {
        self.pausing.load(Ordering::Relaxed)
    }

    /// Claims the start of an executed process; [`Container::exec_over`] must follow once it has ended or its start
    /// has failed.
    ///
    /// # Errors
    /// `STATE` when the init has ended.
    pub fn begin_exec(&self) -> Result<()> {
        let mut begun = false;
        self.active.send_modify(|active| {
            begun = !active.init_gone;
            active.execs += usize::from(begun);
        });
        if begun {
            return Ok(());
        }
        Err(Fault::new(Code::State, format!("execute a process in {}", self.id), "its first process has ended")
            .advise("start the container again"))
    }

    /// An executed process has ended, or its start has failed.
    pub fn exec_over(&self) {
        self.active.send_modify(|active| active.execs = active.execs.saturating_sub(1));
    }

    /// The init has gone: waits until every executed process has, too.
    async fn execs_over(&self) {
        self.active.send_modify(|active| active.init_gone = true);
        let mut active = self.active.subscribe();
        let over = active.wait_for(|active| active.execs == 0);
        if tokio::time::timeout(EXECS_PATIENCE, over).await.is_err() {
            log::error!("processes that were executed in {} outlive its first one", self.id);
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

/// Whether a container has process numbers of its own: with its init, the kernel ends every process of such a one.
fn has_own_pids(config: &Config) -> bool {
    let namespaces = config.value.pointer("/linux/namespaces").and_then(serde_json::Value::as_array);
    let word = |namespace: &serde_json::Value, name: &str| {
        namespace.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_string()
    };
    namespaces.into_iter().flatten().any(|one| word(one, "type") == "pid" && word(one, "path").is_empty())
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
    let id = if process.exec_id.is_empty() { &container.id } else { &process.exec_id };
    let attachment = Attachment {
        sockets: &shim.settings.paths.run.join("tty"),
        owner: Owner { id, namespace: &shim.namespace },
        user: container.io_user,
    };
    match stdio::attached(&attachment, process, run).await {
        Ok(pid) => {
            let (container, process, events) = (container.clone(), process.clone(), shim.events.clone());
            tokio::spawn(async move {
                let status = watch.wait(pid).await;
                let exit = Exit { status: u32::try_from(status).unwrap_or(255), at: OffsetDateTime::now_utc() };
                if process.exec_id.is_empty() {
                    after_init(&container).await;
                }
                // Of a process that was killed for want of memory the reason comes first.
                if let Some(place) = container.place.get() {
                    place.shortage.look();
                }
                process.ended(exit, |exit| say_exit(&container.id, &process.exec_id, pid, exit, &events));
                if !process.exec_id.is_empty() {
                    container.exec_over();
                }
            });
            Ok(pid)
        }
        Err(fault) => {
            watch.forget().await;
            stdio::let_go(process).await;
            Err(fault)
        }
    }
}

/// What comes between the end of a container's init and the word of it: no process of the container outlives its
/// init, and the end of the init is the last that is said.
async fn after_init(container: &Container) {
    if container.init.life().phase == Phase::Paused {
        // What is frozen does not end.
        if let Err(fault) = container.thaw().await {
            log::warn!("{fault}");
        }
    }
    if !container.own_pids
        && let Err(fault) = container.engine.kill(libc::SIGKILL.unsigned_abs(), true).await
        && !matches!(fault.code, Code::NotFound | Code::State)
    {
        log::error!("end what {} left behind: {fault}", container.id);
    }
    container.execs_over().await;
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
