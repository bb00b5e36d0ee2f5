//! Create: the root filesystem is mounted, devices are injected, and the engine makes the container; or, when the
//! image is a checkpoint, the gate is passed and nothing is started before Start. What a failed Create has done is
//! undone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_checkpoint::{gate, host, lease::Lease, room};
use baton_config::names;
use baton_devices::{Card, CheckedPlan, Config, Inventory, Plan, Request, WantedCard, inject};
use baton_fault::{Attempt, Code, Fault, Result};
use baton_image::Checkpoint;
use containerd_shim::asynchronous::io::Stdio;
use containerd_shim::asynchronous::util::mount_rootfs;
use containerd_shim_protos::api::{CreateTaskRequest, Mount};

use crate::container::{Container, watched};
use crate::engine::{Engine, beside_the_shim};
use crate::idmapped::Idmapped;
use crate::members;
use crate::options::Options;
use crate::own_cgroup;
use crate::process::Process;
use crate::service::engine_root;
use crate::task::Shim;
use crate::trust;

/// Longest wait for a card whose memory another container's save has moved off for a moment.
const LEASE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
/// Annotation by which the CRI says that a container belongs into a pod. Such a container gets the devices that
/// its pod was given, and no others.
const CRI_MARK: &str = "io.kubernetes.cri.container-type";

/// What a container is restored from at Start.
pub enum Restorable {
    /// A checkpoint image, which has passed the gate.
    Image(Box<Checkpoint>),
    /// A folder of CRIU's images that containerd named.
    Folder(PathBuf),
}

/// Creates a container.
///
/// # Errors
/// What failed; nothing of the container is left then.
pub async fn create(shim: &Shim, request: &CreateTaskRequest) -> Result<Arc<Container>> {
    let bundle = PathBuf::from(&request.bundle);
    let options = Options::from_any(request.options.as_ref())?;
    let root = engine_root(&shim.settings, &shim.namespace);
    let engine = Engine::new(&options, root, &shim.namespace, &request.id, &bundle)?;
    engine.record()?;
    members::note(&request.id, &engine)?;
    let mounted = mount(request, &bundle).await.inspect_err(|_| members::forget(&request.id))?;
    let outcome = make(shim, request, &bundle, engine, &options).await;
    if outcome.is_err() {
        members::forget(&request.id);
        if mounted {
            unmount(&bundle);
        }
    }
    outcome
}

async fn make(
    shim: &Shim,
    request: &CreateTaskRequest,
    bundle: &Path,
    engine: Engine,
    options: &Options,
) -> Result<Arc<Container>> {
    let mut config = Config::read(bundle)?;
    known_annotations(&config)?;
    let restorable = restorable(shim, request, options, &config).await?;
    if matches!(restorable, Some(Restorable::Folder(_))) && own_cgroup::name_after(&request.id, &mut config) {
        config.write(bundle)?;
    }
    let plan = match &restorable {
        Some(Restorable::Image(checkpoint)) => plan_for_checkpoint(shim, checkpoint, &config).await?,
        _ => plan_for_request(shim, &config).await?,
    };
    let cards = match &plan {
        Some(plan) => {
            let uuids: Vec<_> = plan.plan().cards.iter().map(|card| card.uuid).collect();
            Lease::wait_until_free(&shim.settings.paths.run, &uuids, LEASE_PATIENCE).await?;
            inject::apply(plan, &mut config, bundle)?;
            plan.plan().cards.clone()
        }
        None => Vec::new(),
    };
    if let Some(Restorable::Image(checkpoint)) = &restorable {
        trust::engine_may_restore(&engine, checkpoint, &shim.settings)?;
        gate::mounts(&checkpoint.reference, &checkpoint.manifest, &config.mounts())?;
    }
    let stdio = Stdio::new(&request.stdin, &request.stdout, &request.stderr, request.terminal);
    let container =
        Arc::new(Container::new(&request.id, engine, Process::init(stdio), &config, cards, restorable, options));
    if container.restorable.is_none() {
        run_engine(shim, &container).await?;
    }
    Ok(container)
}

/// Refuses annotations of Baton's that this version does not act on: a user who asked for one must not believe that
/// he got it.
fn known_annotations(config: &Config) -> Result<()> {
    let Some(annotations) = config.value.get("annotations").and_then(serde_json::Value::as_object) else {
        return Ok(());
    };
    for (name, value) in annotations.iter().filter(|(name, _)| name.starts_with(names::ANNOTATION_PREFIX)) {
        let known = match name.as_str() {
            // Some clients turn the labels of an image into annotations.
            names::ANNOTATION_DEVICES | names::LABEL_CHECKPOINT => true,
            names::ANNOTATION_RESTORE => value == "never",
            _ => false,
        };
        if !known {
            return Err(Fault::new(
                Code::RequestSyntax,
                format!("annotation {name}={}", value.as_str().unwrap_or_default()),
                "this version of Baton does not know it",
            )
            .advise("leave it out; `io.baton.devices` and `io.baton.restore=never` are known"));
        }
    }
    Ok(())
}

/// Has the engine make the container, its streams attached.
async fn run_engine(shim: &Shim, container: &Arc<Container>) -> Result<()> {
    let engine = &container.engine;
    let made = watched(shim, container, &container.init, async |streams, console| {
        engine.create(streams, console.as_deref()).await
    })
    .await;
    match made {
        Ok(pid) => {
            container.init.life().pid = pid;
            if let Err(fault) = container.note_place(pid, &shim.events) {
                // It has ended already; its end will be said.
                log::info!("{fault}");
            }
            Ok(())
        }
        Err(fault) => {
            if let Err(undo) = engine.delete(true).await
                && undo.code != Code::NotFound
            {
                log::warn!("removal of what a failed create left: {undo}");
            }
            Err(fault)
        }
    }
}

/// What the container is to be restored from, if anything.
async fn restorable(
    shim: &Shim,
    request: &CreateTaskRequest,
    options: &Options,
    config: &Config,
) -> Result<Option<Restorable>> {
    if !request.checkpoint.is_empty() {
        return Ok(Some(Restorable::Folder(PathBuf::from(&request.checkpoint))));
    }
    if let Some(images) = &options.criu_image_path {
        return Ok(Some(Restorable::Folder(images.clone())));
    }
    if config.annotation(names::ANNOTATION_RESTORE) == Some("never") {
        return Ok(None);
    }
    let store = shim.containerd.connect().await?;
    let record = store.container(&request.id).await?;
    // Clients copy an image's labels to the containers that they make from it.
    if record.image.is_empty() || !record.labels.contains_key(names::LABEL_CHECKPOINT) {
        return Ok(None);
    }
    let checkpoint = store.checkpoint(&record.image).await?;
    Ok(checkpoint.map(|checkpoint| Restorable::Image(Box::new(checkpoint))))
}

/// The devices that the container asks for.
async fn plan_for_request(shim: &Shim, config: &Config) -> Result<Option<CheckedPlan>> {
    let Some(requested) = Request::from_config(&config.value)? else { return Ok(None) };
    let driver = shim.settings.driver.clone();
    blocking(move || inject::plan(&requested.request, &driver, &beside_the_shim("baton-hook")?)).await.map(Some)
}

/// The devices that take the place of a checkpoint's: the gate, then one free card for each. The live container's
/// own request bounds the choice; a container outside Kubernetes that asks for none may get any card.
async fn plan_for_checkpoint(shim: &Shim, checkpoint: &Checkpoint, config: &Config) -> Result<Option<CheckedPlan>> {
    let manifest = &checkpoint.manifest;
    let inventory = if manifest.gpus.is_empty() { None } else { Some(offered(shim, config).await?) };
    let node = gate::Node {
        host: host::here()?,
        criu: shim.criu_version().await?,
        driver: inventory.as_ref().map(|inventory| inventory.driver_version.clone()).filter(|v| !v.is_empty()),
        cards: inventory.iter().flat_map(|inventory| &inventory.cards).map(node_card).collect(),
    };
    gate::check(&checkpoint.reference, manifest, &node)?;
    let Some(inventory) = inventory else { return plan_for_request(shim, config).await };
    let wanted = manifest.gpus.iter().map(wanted).collect::<Result<Vec<_>>>()?;
    let uuids: Vec<_> = inventory.cards.iter().map(|card| card.uuid).collect();
    let usage = room::usage(&shim.settings.driver, &uuids).await?;
    let reference = checkpoint.reference.clone();
    let driver = shim.settings.driver.clone();
    blocking(move || {
        let cards = baton_devices::pick(&inventory, &usage, &wanted)
            .map_err(|fault| fault.during(format!("restore {reference}")))?;
        Plan::for_cards(&cards, &inventory.driver_version, &driver, &beside_the_shim("baton-hook")?)?.check()
    })
    .await
    .map(Some)
}

/// The cards among which a restore may choose; none on a node without a driver.
async fn offered(shim: &Shim, config: &Config) -> Result<Inventory> {
    let requested = Request::from_config(&config.value)?;
    let none = |inventory: Inventory| Inventory { cards: Vec::new(), ..inventory };
    let driver = shim.settings.driver.clone();
    let inventory = match blocking(move || Inventory::read(&driver)).await {
        Err(fault) if fault.code == Code::DriverMissing => {
            log::info!("no driver for a restore: {fault}");
            return Ok(Inventory { driver_version: String::new(), cuda_version: 0, cards: Vec::new() });
        }
        other => other?,
    };
    match requested.map(|requested| requested.request) {
        Some(Request::Cards(cards)) => {
            let cards = cards.into_iter().map(|card| inventory.card(card).cloned()).collect::<Result<_>>()?;
            Ok(Inventory { cards, ..inventory })
        }
        Some(Request::None) => Ok(none(inventory)),
        Some(Request::All) => Ok(inventory),
        None if config.annotation(CRI_MARK).is_some() => Ok(none(inventory)),
        None => Ok(inventory),
    }
}

fn node_card(card: &Card) -> gate::NodeCard {
    gate::NodeCard {
        model: card.model.clone(),
        compute_capability: [card.compute_capability.major, card.compute_capability.minor],
        memory_total: card.memory_total,
    }
}

fn wanted(gpu: &baton_image::manifest::Gpu) -> Result<WantedCard> {
    Ok(WantedCard {
        uuid: gpu.uuid.parse()?,
        model: gpu.model.clone(),
        compute_capability: baton_devices::ComputeCapability {
            major: gpu.compute_capability[0],
            minor: gpu.compute_capability[1],
        },
        memory_total: gpu.memory_total,
        needed_bytes: gpu.memory_used,
    })
}

/// Runs what blocks (NVML, files) away from the task that serves containerd.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|err| Fault::new(Code::System, "run a blocking call", err))?
}

/// Mounts the root filesystem that containerd hands over, if it does.
async fn mount(request: &CreateTaskRequest, bundle: &Path) -> Result<bool> {
    let rootfs = bundle.join("rootfs");
    if request.rootfs.is_empty() {
        return Ok(false);
    }
    std::fs::create_dir_all(&rootfs).attempt(|| format!("make {}", rootfs.display()))?;
    for mount in &request.rootfs {
        if let Err(fault) = mount_one(mount, &rootfs).await {
            unmount(bundle);
            return Err(fault.during(format!("mount the root filesystem of {}", request.id)));
        }
    }
    Ok(true)
}

async fn mount_one(mount: &Mount, rootfs: &Path) -> Result<()> {
    if let Some(idmapped) = Idmapped::asked(mount)? {
        return idmapped.mount(rootfs).await;
    }
    mount_rootfs(mount, rootfs).await.map_err(|err| {
        Fault::new(Code::System, format!("mount {}", rootfs.display()), err)
            .advise("see whether containerd's snapshotter works")
    })
}

/// Unmounts the root filesystem; what is not mounted is no error.
pub fn unmount(bundle: &Path) {
    if let Err(err) = containerd_shim::mount::umount_recursive(bundle.join("rootfs").to_str(), libc::MNT_DETACH) {
        log::warn!("unmount the root filesystem in {}: {err}", bundle.display());
    }
}
