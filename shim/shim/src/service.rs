//! The shim as a program: `start`, `delete`, and the server that containerd talks to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use baton_config::Settings;
use containerd_shim::asynchronous::publisher::RemotePublisher;
use containerd_shim::asynchronous::{ExitSignal, Shim, spawn};
use containerd_shim::{Config, Error, Flags, StartOpts};
use containerd_shim_protos::api::DeleteResponse;
use serde::Deserialize;
use time::OffsetDateTime;

use crate::engine::Engine;
use crate::events::Events;
use crate::task::Tasks;

/// By this annotation containers say that they belong into one pod, and so to one shim.
const SANDBOX_ID: &str = "io.kubernetes.cri.sandbox-id";
/// How a container ended whose shim is gone: as if killed.
const KILLED: u32 = 137;

/// The shim as a program.
pub struct Service {
    exit: Arc<ExitSignal>,
    id: String,
    namespace: String,
    containerd: PathBuf,
    socket: String,
}

#[async_trait]
impl Shim for Service {
    type T = Tasks;

    async fn new(_runtime: &str, flags: &Flags, _config: &mut Config) -> Self {
        Service {
            exit: Arc::new(ExitSignal::default()),
            id: flags.id.clone(),
            namespace: flags.namespace.clone(),
            containerd: PathBuf::from(&flags.address),
            socket: flags.socket.clone(),
        }
    }

    async fn start_shim(&mut self, opts: StartOpts) -> Result<String, Error> {
        let grouping = group(Path::new("config.json")).unwrap_or_else(|| opts.id.clone());
        spawn(opts, &grouping, Vec::new()).await
    }

    async fn delete_shim(&mut self) -> Result<DeleteResponse, Error> {
        let bundle = std::env::current_dir().map_err(|err| Error::Other(format!("find the bundle: {err}")))?;
        crate::reaper::start().map_err(|fault| Error::Other(fault.to_string()))?;
        // Whatever the settings have become, the container must not stay: its bundle says what ran it.
        let settings = Settings::load().unwrap_or_else(|fault| {
            eprintln!("{fault}");
            Settings::default()
        });
        self.sweep(&bundle, &settings).await;
        Ok(DeleteResponse {
            pid: 0,
            exit_status: KILLED,
            exited_at: Some(containerd_shim::util::convert_to_timestamp(Some(OffsetDateTime::now_utc()))).into(),
            ..DeleteResponse::default()
        })
    }

    async fn wait(&mut self) {
        self.exit.wait().await;
        // At once: the next shim of a container of this name would take one that still listens for its own.
        if let Some(path) = self.socket.strip_prefix("unix://")
            && let Err(err) = std::fs::remove_file(path)
        {
            log::warn!("remove the socket {path}: {err}");
        }
    }

    async fn create_task_service(&self, publisher: RemotePublisher) -> Tasks {
        let settings = match Settings::load() {
            Ok(settings) => settings,
            Err(fault) => {
                // The shim must come up all the same, or containerd has nobody to say it to: Create will.
                log::error!("{fault}");
                return Tasks::refusing(fault, self.exit.clone());
            }
        };
        if let Err(fault) = crate::reaper::start() {
            log::error!("{fault}");
            return Tasks::refusing(fault, self.exit.clone());
        }
        let events = Events::start(publisher, self.namespace.clone());
        Tasks::new(self.namespace.clone(), self.containerd.clone(), settings, events, self.exit.clone())
    }
}

impl Service {
    /// Ends and removes whatever a shim that is gone has left of its container. Each part is tried whatever the
    /// others said.
    async fn sweep(&self, bundle: &Path, settings: &Settings) {
        let report = |what: &str, outcome: baton_fault::Result<()>| {
            if let Err(fault) = outcome
                && fault.code != baton_fault::Code::NotFound
            {
                eprintln!("{what}: {fault}");
            }
        };
        // Without a record Create had not come to the engine yet.
        if let Some(engine) = Engine::recorded(bundle) {
            report("delete the container", engine.delete(true).await);
        }
        let left = baton_checkpoint::journal::leftovers(bundle);
        baton_checkpoint::save::sweep(&left, &self.containerd, &self.namespace).await;
        crate::control::remove(settings, &self.namespace, &self.id);
        if let Err(err) = containerd_shim::mount::umount_recursive(bundle.join("rootfs").to_str(), libc::MNT_DETACH) {
            eprintln!("unmount the root filesystem: {err}");
        }
    }
}

/// The engine's state for the containers of one namespace of containerd.
pub fn engine_root(settings: &Settings, namespace: &str) -> PathBuf {
    settings.paths.run.join("engine").join(namespace)
}

#[derive(Deserialize)]
struct Annotated {
    #[serde(default)]
    annotations: std::collections::HashMap<String, String>,
}

fn group(config: &Path) -> Option<String> {
    let text = std::fs::read(config).ok()?;
    let spec: Annotated = serde_json::from_slice(&text).ok()?;
    spec.annotations.get(SANDBOX_ID).filter(|id| !id.is_empty()).cloned()
}
