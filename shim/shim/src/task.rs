//! The Task service, version 3: each call in a few lines, in the words of containerd.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use baton_checkpoint::gpu::NodeGpu;
use baton_checkpoint::publish::Containerd;
use baton_config::Settings;
use baton_criu::{VERSION_MIN, Version};
use baton_fault::{Code, Fault, Result};
use containerd_shim::asynchronous::ExitSignal;
use containerd_shim::util::convert_to_timestamp;
use containerd_shim_protos::api;
use containerd_shim_protos::events::task as events;
use containerd_shim_protos::shim_async::Task;
use containerd_shim_protos::topics;
use containerd_shim_protos::ttrpc;
use containerd_shim_protos::ttrpc::r#async::TtrpcContext;
use tokio::sync::{Notify, OnceCell};

use crate::container::{Container, say_exit};
use crate::create::{blocking, create};
use crate::engine::beside_the_shim;
use crate::events::Events;
use crate::process::Phase;
use crate::state::{pids, state};
use crate::status::{answer, status};
use crate::{children, control, delete, execs, kill, save, start, stats, terminal, update};

/// Longest wait for a container that is being created by those who ask for it: a creation takes some milliseconds.
const CREATE_PATIENCE: Duration = Duration::from_secs(2);

/// What the calls of one shim share.
pub struct Shim {
    /// containerd's namespace.
    pub namespace: String,
    /// Where containerd is.
    pub containerd: Containerd,
    /// The node's settings.
    pub settings: Settings,
    /// Where the shim says what happened.
    pub events: Events,
    /// None of one that is being created.
    containers: Mutex<HashMap<String, Option<Arc<Container>>>>,
    /// Whenever a creation has ended, one way or the other.
    settled: Notify,
    /// The driver, with its agent.
    pub gpu: NodeGpu,
    criu: OnceCell<String>,
    exit: Arc<ExitSignal>,
}

impl Shim {
    fn containers(&self) -> std::sync::MutexGuard<'_, HashMap<String, Option<Arc<Container>>>> {
        // A panic while it was held leaves a map with or without one entry, both valid.
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The container of that id.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn container(&self, id: &str) -> Result<Arc<Container>> {
        self.containers()
            .get(id)
            .cloned()
            .flatten()
            .ok_or_else(|| Fault::new(Code::NotFound, format!("container {id}"), "there is none"))
    }

    /// The container of that id; one that is being created is waited for, at most for [`CREATE_PATIENCE`]. A containerd
    /// that comes back in the middle of a Create asks for the processes of what it finds, and would take a shim without
    /// any for one to be thrown away. It waits for the answer as long as that takes, and a creation whose client is gone
    /// may never end, as nobody opens the other ends of its streams.
    ///
    /// # Errors
    /// `NOT_FOUND`, also of one that is still being created then.
    pub async fn settled(&self, id: &str) -> Result<Arc<Container>> {
        let settled = async {
            loop {
                let settled = self.settled.notified();
                tokio::pin!(settled);
                settled.as_mut().enable();
                if !matches!(self.containers().get(id), Some(None)) {
                    return;
                }
                settled.await;
            }
        };
        // Whether in time or not: the answer is what there is now.
        let _ = tokio::time::timeout(CREATE_PATIENCE, settled).await;
        self.container(id)
    }

    /// CRIU's version on this node.
    ///
    /// # Errors
    /// `CRIU_VERSION` when there is none.
    pub async fn criu_version(&self) -> Result<String> {
        let version = self.criu.get_or_try_init(|| async {
            let lacking = |why: &dyn std::fmt::Display| {
                Fault::new(Code::CriuVersion, "ask CRIU for its version", why)
                    .advise("install CRIU 4.2 or newer, on the PATH of containerd")
            };
            let mut command = std::process::Command::new("criu");
            command.arg("--version");
            let finished =
                children::run(command, None, Duration::from_secs(10)).await.map_err(|fault| lacking(&fault.why()))?;
            let text = String::from_utf8_lossy(&finished.stdout).into_owned();
            let version = text.lines().find_map(|line| line.strip_prefix("Version:")?.trim().parse::<Version>().ok());
            match version {
                None => Err(lacking(&"it says none")),
                Some(old) if old < VERSION_MIN => Err(lacking(&format!("it is {old}, needed is {VERSION_MIN}"))),
                Some(version) => Ok(version.to_string()),
            }
        });
        version.await.cloned()
    }

    /// Keeps the name while the container is being made, so that two creates of one name do not meet.
    fn reserve(&self, id: &str) -> Result<()> {
        let mut containers = self.containers();
        if containers.contains_key(id) {
            return Err(Fault::new(Code::Exists, format!("create container {id}"), "there is one of that name"));
        }
        containers.insert(id.to_string(), None);
        Ok(())
    }

    /// Forgets a container.
    pub fn forget(&self, id: &str) {
        self.containers().remove(id);
    }
}

/// The Task service.
pub struct Tasks(std::result::Result<Arc<Shim>, (Fault, Arc<ExitSignal>)>);

impl Tasks {
    /// A service for the containers of `namespace`.
    pub fn new(
        namespace: String,
        containerd: PathBuf,
        settings: Settings,
        events: Events,
        exit: Arc<ExitSignal>,
    ) -> Tasks {
        let agent = match beside_the_shim("baton-gpu-agent") {
            Ok(agent) => agent,
            Err(fault) => return Tasks::refusing(fault, exit),
        };
        Tasks(Ok(Arc::new(Shim {
            containerd: Containerd { socket: containerd, namespace: namespace.clone() },
            namespace,
            events,
            containers: Mutex::default(),
            settled: Notify::new(),
            gpu: NodeGpu::new(agent, settings.driver.clone()),
            settings,
            criu: OnceCell::new(),
            exit,
        })))
    }

    /// A service that answers every call with `fault`: the shim cannot work, and this is how its user learns why.
    pub fn refusing(fault: Fault, exit: Arc<ExitSignal>) -> Tasks {
        Tasks(Err((fault, exit)))
    }

    fn shim(&self) -> Result<&Arc<Shim>> {
        self.0.as_ref().map_err(|(fault, _)| fault.clone())
    }
}

#[async_trait]
impl Task for Tasks {
    async fn state(&self, _: &TtrpcContext, request: api::StateRequest) -> ttrpc::Result<api::StateResponse> {
        let outcome = self.shim().and_then(|shim| {
            let container = shim.container(&request.id)?;
            Ok(state(&container, &*container.process(&request.exec_id)?))
        });
        outcome.map_err(status)
    }

    async fn create(
        &self,
        _: &TtrpcContext,
        request: api::CreateTaskRequest,
    ) -> ttrpc::Result<api::CreateTaskResponse> {
        answer("create", self.create_task(request).await)
    }

    async fn start(&self, _: &TtrpcContext, request: api::StartRequest) -> ttrpc::Result<api::StartResponse> {
        let outcome = async {
            let shim = self.shim()?;
            let container = shim.container(&request.id)?;
            start::start(shim, &container, &request.exec_id).await
        };
        answer("start", outcome.await.map(|pid| api::StartResponse { pid, ..Default::default() }))
    }

    async fn delete(&self, _: &TtrpcContext, request: api::DeleteRequest) -> ttrpc::Result<api::DeleteResponse> {
        let outcome = async { delete::delete(self.shim()?, request).await };
        answer("delete", outcome.await)
    }

    async fn pids(&self, _: &TtrpcContext, request: api::PidsRequest) -> ttrpc::Result<api::PidsResponse> {
        let outcome = async { pids(&*self.shim()?.settled(&request.id).await?) };
        answer("pids", outcome.await)
    }

    async fn pause(&self, _: &TtrpcContext, request: api::PauseRequest) -> ttrpc::Result<api::Empty> {
        let outcome = async {
            let shim = self.shim()?;
            save::pause(shim, &*shim.container(&request.id)?).await
        };
        answer("pause", outcome.await.map(|()| api::Empty::new()))
    }

    async fn resume(&self, _: &TtrpcContext, request: api::ResumeRequest) -> ttrpc::Result<api::Empty> {
        let outcome = async {
            let shim = self.shim()?;
            save::resume(shim, &*shim.container(&request.id)?).await
        };
        answer("resume", outcome.await.map(|()| api::Empty::new()))
    }

    async fn checkpoint(&self, _: &TtrpcContext, request: api::CheckpointTaskRequest) -> ttrpc::Result<api::Empty> {
        let outcome = async {
            let shim = self.shim()?;
            save::checkpoint(shim, &*shim.container(&request.id)?, &request).await
        };
        answer("checkpoint", outcome.await.map(|()| api::Empty::new()))
    }

    async fn kill(&self, _: &TtrpcContext, request: api::KillRequest) -> ttrpc::Result<api::Empty> {
        let outcome = async { kill::kill(self.shim()?, &request).await };
        answer("kill", outcome.await.map(|()| api::Empty::new()))
    }

    async fn exec(&self, _: &TtrpcContext, request: api::ExecProcessRequest) -> ttrpc::Result<api::Empty> {
        let outcome = self.shim().and_then(|shim| execs::add(shim, &request));
        answer("exec", outcome.map(|()| api::Empty::new()))
    }

    async fn resize_pty(&self, _: &TtrpcContext, request: api::ResizePtyRequest) -> ttrpc::Result<api::Empty> {
        let outcome = self.shim().and_then(|shim| {
            let process = shim.container(&request.id)?.process(&request.exec_id)?;
            // A size for a process without a terminal, or whose terminal has gone, changes nothing.
            process.pty().map_or(Ok(()), |pty| terminal::resize(&pty, request.width, request.height))
        });
        answer("resize", outcome.map(|()| api::Empty::new()))
    }

    async fn close_io(&self, _: &TtrpcContext, request: api::CloseIORequest) -> ttrpc::Result<api::Empty> {
        let outcome = self.shim().and_then(|shim| {
            let process = shim.container(&request.id)?.process(&request.exec_id)?;
            if request.stdin {
                process.io().close_input();
            }
            Ok(api::Empty::new())
        });
        answer("close-io", outcome)
    }

    async fn update(&self, _: &TtrpcContext, request: api::UpdateTaskRequest) -> ttrpc::Result<api::Empty> {
        let outcome = async {
            let container = self.shim()?.container(&request.id)?;
            container.must_be(&[Phase::Created, Phase::Running, Phase::Paused], "update")?;
            let resources = request.resources.as_ref().map_or(&[][..], |any| &any.value);
            update::update(&container, resources).await
        };
        answer("update", outcome.await.map(|()| api::Empty::new()))
    }

    async fn wait(&self, _: &TtrpcContext, request: api::WaitRequest) -> ttrpc::Result<api::WaitResponse> {
        let process =
            self.shim().and_then(|shim| shim.container(&request.id)?.process(&request.exec_id)).map_err(status)?;
        let exit = process.wait().await;
        Ok(api::WaitResponse {
            exit_status: exit.status,
            exited_at: Some(convert_to_timestamp(Some(exit.at))).into(),
            ..Default::default()
        })
    }

    async fn stats(&self, _: &TtrpcContext, request: api::StatsRequest) -> ttrpc::Result<api::StatsResponse> {
        let outcome = async {
            let container = self.shim()?.container(&request.id)?;
            let hierarchy = container.hierarchy()?.clone();
            blocking(move || stats::stats(&hierarchy)).await
        };
        answer(
            "stats",
            outcome.await.map(|stats| api::StatsResponse { stats: Some(stats).into(), ..Default::default() }),
        )
    }

    async fn connect(&self, _: &TtrpcContext, request: api::ConnectRequest) -> ttrpc::Result<api::ConnectResponse> {
        let task_pid = self
            .shim()
            .and_then(|shim| shim.container(&request.id))
            .map(|container| container.init.life().pid)
            .unwrap_or_default();
        Ok(api::ConnectResponse {
            shim_pid: std::process::id(),
            task_pid,
            version: env!("CARGO_PKG_VERSION").to_string(),
            ..Default::default()
        })
    }

    async fn shutdown(&self, _: &TtrpcContext, _: api::ShutdownRequest) -> ttrpc::Result<api::Empty> {
        match &self.0 {
            // Nor does what is being created keep it: a containerd that wants the end of the shim has given that up.
            Ok(shim) if shim.containers().values().all(Option::is_none) => {
                shim.events.flush().await;
                shim.exit.signal();
            }
            // Other containers of the pod live on.
            Ok(_) => {}
            Err((_, exit)) => exit.signal(),
        }
        Ok(api::Empty::new())
    }
}

impl Tasks {
    async fn create_task(&self, request: api::CreateTaskRequest) -> Result<api::CreateTaskResponse> {
        let shim = self.shim()?;
        shim.reserve(&request.id)?;
        match create(shim, &request).await {
            Ok(container) => {
                control::serve(shim, &container);
                shim.containers().insert(request.id.clone(), Some(container.clone()));
                shim.settled.notify_waiters();
                let pid = container.init.life().pid;
                container.init.made(
                    || say_created(shim, request, pid),
                    |exit| say_exit(&container.id, "", pid, exit, &shim.events),
                );
                Ok(api::CreateTaskResponse { pid, ..Default::default() })
            }
            Err(fault) => {
                shim.containers().remove(&request.id);
                shim.settled.notify_waiters();
                Err(fault)
            }
        }
    }
}

fn say_created(shim: &Shim, request: api::CreateTaskRequest, pid: u32) {
    let io = events::TaskIO {
        stdin: request.stdin,
        stdout: request.stdout,
        stderr: request.stderr,
        terminal: request.terminal,
        ..Default::default()
    };
    let event = events::TaskCreate {
        container_id: request.id,
        bundle: request.bundle,
        rootfs: request.rootfs,
        io: Some(io).into(),
        checkpoint: request.checkpoint,
        pid,
        ..Default::default()
    };
    shim.events.say(topics::TASK_CREATE_EVENT_TOPIC, event);
}
