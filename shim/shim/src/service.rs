//! The shim as a program: `start`, `delete`, and the server that containerd talks to.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use baton_config::Settings;
use baton_fault::{Code, Fault};
use containerd_shim::asynchronous::publisher::RemotePublisher;
use containerd_shim::asynchronous::{ExitSignal, Shim, spawn};
use containerd_shim::{Config, Error, Flags, StartOpts};
use containerd_shim_protos::api::DeleteResponse;
use containerd_shim_protos::protobuf::well_known_types::any::Any;
use containerd_shim_protos::types::introspection::RuntimeInfo;
use serde::Deserialize;
use time::OffsetDateTime;

use crate::abandoned;
use crate::engine::{Engine, Recorded};
use crate::events::Events;
use crate::members;
use crate::options::Options;
use crate::task::Tasks;

/// By these annotations containers say that they belong together, and so to one shim; the first counts.
const GROUPS: [&str; 2] = ["io.containerd.runc.v2.group", "io.kubernetes.cri.sandbox-id"];
/// How a container ended whose shim is gone: as if killed.
const KILLED: u32 = 137;

/// The shim as a program.
pub struct Service {
    exit: Arc<ExitSignal>,
    id: String,
    namespace: String,
    containerd: PathBuf,
    socket: String,
    bundle: String,
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
            bundle: flags.bundle.clone(),
        }
    }

    fn runtime_info(_runtime: &str, options: Option<&Any>) -> Result<RuntimeInfo, Error> {
        crate::info::runtime_info(options).map_err(|fault| Error::Other(fault.to_string()))
    }

    async fn start_shim(&mut self, mut opts: StartOpts) -> Result<String, Error> {
        opts.extensions.extend(crate::options::shim_cgroup(&opts.extensions));
        schedule_as_one().map_err(|fault| Error::Other(fault.to_string()))?;
        let grouping = group(Path::new("config.json")).unwrap_or_else(|| opts.id.clone());
        let address = spawn(opts, &grouping, Vec::new()).await?;
        abandoned::remember(&address).map_err(|fault| Error::Other(fault.to_string()))?;
        Ok(address)
    }

    async fn delete_shim(&mut self) -> Result<DeleteResponse, Error> {
        let bundle = match self.bundle.as_str() {
            "" => std::env::current_dir().map_err(|err| Error::Other(format!("find the bundle: {err}")))?,
            named => PathBuf::from(named),
        };
        // Read before the sweep: nothing says that the engine leaves it.
        let pid = crate::engine::init_pid(&bundle).unwrap_or_default();
        crate::reaper::start().map_err(|fault| Error::Other(fault.to_string()))?;
        // Whatever the settings have become, the container must not stay: its bundle says what ran it.
        let settings = Settings::load().unwrap_or_else(|fault| {
            eprintln!("{fault}");
            Settings::default()
        });
        // containerd clears up after each shim, also after one whose container is deleted, and does not wait for us
        // meanwhile: when the folder that we were started in is no longer the bundle of that name, there may be
        // another container of it, which is none of our business.
        if bundle_is_here() {
            self.sweep(&bundle, &settings).await;
        }
        Ok(DeleteResponse {
            pid,
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
                && fault.code != Code::NotFound
            {
                eprintln!("{what}: {fault}");
            }
        };
        let engine = match Engine::recorded(bundle) {
            Recorded::By(engine) => Ok(Some(engine)),
            Recorded::Gone => Ok(None),
            // Create had most likely not come to the engine yet; if it had, it was ours.
            Recorded::Nothing => {
                let root = engine_root(settings, &self.namespace);
                Engine::new(&Options::default(), root, &self.namespace, &self.id, bundle).map(Some)
            }
        };
        match engine {
            Ok(Some(engine)) => report("delete the container", engine.delete(true).await),
            Ok(None) => {}
            Err(fault) => report("find the engine", Err(fault)),
        }
        let mut bundles = vec![bundle.to_path_buf()];
        for engine in members::left(bundle) {
            match engine.delete(true).await {
                Ok(()) if engine.bundle() != bundle => engine.record_deletion(),
                outcome => report("delete another container of the pod", outcome),
            }
            bundles.push(engine.bundle().to_path_buf());
        }
        for bundle in &bundles {
            let left = baton_checkpoint::journal::leftovers(bundle);
            baton_checkpoint::save::sweep(&left, &self.containerd, &self.namespace).await;
        }
        // What follows goes by names, which may have come to be another container's meanwhile.
        if !bundle_is_here() {
            return;
        }
        crate::control::remove(settings, &self.namespace, &self.id);
        abandoned::end(bundle, &self.id).await;
        if let Err(err) = containerd_shim::mount::umount_recursive(bundle.join("rootfs").to_str(), libc::MNT_DETACH) {
            eprintln!("unmount the root filesystem: {err}");
        }
    }
}

/// Whether the folder that this program was started in still has a name.
fn bundle_is_here() -> bool {
    std::fs::metadata(".").is_ok_and(|folder| folder.nlink() > 0)
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
    GROUPS.iter().find_map(|name| spec.annotations.get(*name)).filter(|id| !id.is_empty()).cloned()
}

/// Where containerd asks for it, the shim and its containers share a core with nobody else (`SCHED_CORE`, as runc's
/// shim has it).
fn schedule_as_one() -> baton_fault::Result<()> {
    /// A new cookie, for a group of processes (linux/prctl.h).
    const CREATE: libc::c_ulong = 1;
    const PROCESS_GROUP: libc::c_ulong = 2;
    if std::env::var_os("SCHED_CORE").is_none_or(|asked| asked.is_empty()) {
        return Ok(());
    }
    // SAFETY: prctl with numbers only touches no memory of ours.
    let done = unsafe { libc::prctl(libc::PR_SCHED_CORE, CREATE, 0, PROCESS_GROUP, 0) };
    if done == 0 {
        return Ok(());
    }
    Err(Fault::new(Code::System, "enable core scheduling", std::io::Error::last_os_error())
        .advise("unset SCHED_CORE in containerd's environment, or use a kernel that has it"))
}
