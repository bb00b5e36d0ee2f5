//! MIG devices: compute instances, with handles that many calls take in place of a card's.

use baton_sim_model::{GpuProfile, MigTable};
use baton_sim_wire::{ComputeInstance, GpuInstance, InstanceId};

use crate::codes::{Code, Outcome};
use crate::handle::{Handle, Target};
use crate::layout::layout;
use crate::library::{Library, Now, call};
use crate::permission;
use crate::pointer::Place;
use crate::profile;

/// `nvmlDeviceAttributes_t`.
#[repr(C)]
struct Attributes {
    multiprocessors: u32,
    copy_engines: u32,
    decoders: u32,
    encoders: u32,
    jpeg_decoders: u32,
    ofa: u32,
    gpu_instance_slices: u32,
    compute_instance_slices: u32,
    mebibytes: u64,
}

layout!(
    Attributes, 40: multiprocessors 0, copy_engines 4, decoders 8, encoders 12, jpeg_decoders 16, ofa 20,
    gpu_instance_slices 24, compute_instance_slices 28, mebibytes 32
);

/// A MIG device as it is now.
pub struct MigDevice {
    /// The card.
    pub now: Now,
    /// Which MIG device of it.
    pub instance: InstanceId,
    /// Its GPU instance.
    pub gpu: GpuInstance,
    compute: ComputeInstance,
}

impl MigDevice {
    fn table(&self) -> Outcome<&'static MigTable> {
        self.now.model()?.mig.ok_or(Code::NOT_SUPPORTED)
    }

    fn profile(&self) -> Outcome<&'static GpuProfile> {
        self.table()?.by_index(self.gpu.profile).ok_or(Code::UNKNOWN)
    }
}

/// The MIG devices of a card that this process may see, by GPU instance and compute instance.
fn visible(library: &Library, now: &Now) -> Vec<(InstanceId, String)> {
    let root = library.root.path();
    let everything = permission::sees_everything(root);
    let instances = now.held.instances.iter().flat_map(|gpu| {
        let name = |compute: &ComputeInstance| (InstanceId { gpu: gpu.id, compute: compute.id }, compute.uuid.clone());
        gpu.compute.iter().map(name)
    });
    instances.filter(|(id, _)| everything || permission::sees(root, now.held.card.minor, *id)).collect()
}

/// The MIG device of a handle; one that is gone, or that this process must not see, is an invalid argument.
pub fn find(library: &Library, device: Handle) -> Outcome<MigDevice> {
    let Target::Mig(place, instance) = device.target()? else { return Err(Code::INVALID_ARGUMENT) };
    let now = library.now_at(place)?;
    if !visible(library, &now).iter().any(|(id, _)| *id == instance) {
        return Err(Code::INVALID_ARGUMENT);
    }
    let gpu = now.held.instances.iter().find(|gpu| gpu.id == instance.gpu).ok_or(Code::INVALID_ARGUMENT)?.clone();
    let compute = gpu.compute.iter().find(|compute| compute.id == instance.compute);
    let compute = compute.ok_or(Code::INVALID_ARGUMENT)?.clone();
    Ok(MigDevice { now, instance, gpu, compute })
}

/// The handle of the MIG device that is called so: `MIG-` and a UUID, or `MIG-GPU-…/GPU instance/compute instance` as
/// drivers before 470 called it.
pub fn by_name(library: &Library, name: &str) -> Outcome<Handle> {
    let Some(rest) = name.get(..4).filter(|head| head.eq_ignore_ascii_case("MIG-")).map(|_| &name[4..]) else {
        return Err(Code::NOT_FOUND);
    };
    let parts: Vec<&str> = rest.split('/').collect();
    let [card, gpu, compute] = parts[..] else {
        return by_text(library, |uuid| uuid.eq_ignore_ascii_case(name));
    };
    let (Ok(gpu), Ok(compute)) = (gpu.parse(), compute.parse()) else { return Err(Code::NOT_FOUND) };
    let place = library.cards.iter().position(|known| known.uuid.eq_ignore_ascii_case(card)).ok_or(Code::NOT_FOUND)?;
    let wanted = InstanceId { gpu, compute };
    let there = visible(library, &library.now_at(place)?).iter().any(|(id, _)| *id == wanted);
    if there { Ok(Handle::of(Target::Mig(place, wanted))) } else { Err(Code::NOT_FOUND) }
}

/// The handle of the MIG device whose UUID is the one that is looked for.
pub fn by_text(library: &Library, same: impl Fn(&str) -> bool) -> Outcome<Handle> {
    for place in 0..library.cards.len() {
        let devices = visible(library, &library.now_at(place)?);
        if let Some((id, _)) = devices.iter().find(|(_, uuid)| same(uuid)) {
            return Ok(Handle::of(Target::Mig(place, *id)));
        }
    }
    Err(Code::NOT_FOUND)
}

/// `NVIDIA A100-SXM4-40GB MIG 1g.5gb`.
pub fn name(library: &Library, device: Handle) -> Outcome<String> {
    let found = find(library, device)?;
    let profile = profile::compute_name(found.profile()?, found.compute.placement.size);
    Ok(format!("{} MIG {profile}", found.now.held.card.model))
}

/// Its UUID.
pub fn uuid(library: &Library, device: Handle) -> Outcome<String> {
    Ok(find(library, device)?.compute.uuid)
}

/// Its place among those that this process sees.
pub fn index(library: &Library, device: Handle) -> Outcome<u32> {
    let MigDevice { now, instance, .. } = find(library, device)?;
    let place = visible(library, &now).iter().position(|(id, _)| *id == instance);
    place.map(|place| place as u32).ok_or(Code::NOT_FOUND)
}

/// 0 unless the card is in MIG mode.
fn most(now: &Now) -> u32 {
    let table = now.model().ok().and_then(|model| model.mig);
    table.filter(|_| now.held.settings.mig).map_or(0, MigTable::most_devices)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, count: Place<u32>) -> i32 {
    call("nvmlDeviceGetMaxMigDeviceCount", |library| count.give(most(&library.now(device)?)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(device: Handle, index: u32, mig: Place<Handle>) -> i32 {
    call("nvmlDeviceGetMigDeviceHandleByIndex", |library| {
        let now = library.now(device)?;
        mig.exists()?;
        if now.model()?.mig.is_none() {
            return Err(Code::NOT_SUPPORTED);
        }
        if now.held.settings.mig && index >= most(&now) {
            return Err(Code::INVALID_ARGUMENT);
        }
        let (id, _) = visible(library, &now).into_iter().nth(index as usize).ok_or(Code::NOT_FOUND)?;
        mig.give(Handle::of(Target::Mig(now.place, id)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceIsMigDeviceHandle(device: Handle, is: Place<u32>) -> i32 {
    call("nvmlDeviceIsMigDeviceHandle", |library| {
        let target = device.target()?;
        library.at(target.card())?;
        is.give(u32::from(matches!(target, Target::Mig(..))))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig: Handle, device: Place<Handle>) -> i32 {
    call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", |library| {
        device.give(Handle::of(Target::Card(find(library, mig)?.now.place)))
    })
}

/// The numbers of the handle's device; a card has none.
fn numbers(name: &str, device: Handle, id: Place<u32>, of: impl FnOnce(InstanceId) -> u32) -> i32 {
    call(name, |library| match device.target()? {
        Target::Card(place) => library.at(place).and(Err(Code::NOT_SUPPORTED)),
        Target::Mig(..) => id.give(of(find(library, device)?.instance)),
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceId(device: Handle, id: Place<u32>) -> i32 {
    numbers("nvmlDeviceGetGpuInstanceId", device, id, |instance| instance.gpu)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeInstanceId(device: Handle, id: Place<u32>) -> i32 {
    numbers("nvmlDeviceGetComputeInstanceId", device, id, |instance| instance.compute)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetAttributes_v2(device: Handle, attributes: Place<Attributes>) -> i32 {
    call("nvmlDeviceGetAttributes_v2", |library| {
        if let Target::Card(place) = device.target()? {
            return library.at(place).and(Err(Code::NOT_SUPPORTED));
        }
        let found = find(library, device)?;
        let (table, of, slices) = (found.table()?, found.profile()?, found.compute.placement.size);
        attributes.give(Attributes {
            multiprocessors: profile::compute_multiprocessors(table, of, slices),
            copy_engines: of.engines.copy,
            decoders: of.engines.decoder,
            encoders: of.engines.encoder,
            jpeg_decoders: of.engines.jpeg,
            ofa: of.engines.ofa,
            gpu_instance_slices: of.compute_slices,
            compute_instance_slices: slices,
            mebibytes: of.mebibytes,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetAttributes(device: Handle, attributes: Place<Attributes>) -> i32 {
    nvmlDeviceGetAttributes_v2(device, attributes)
}
