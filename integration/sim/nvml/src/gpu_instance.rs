//! GPU instances: made, found, destroyed.

use baton_sim_model::{Capability, GpuProfile, MigTable, possible};
use baton_sim_wire::{Change, GpuInstance};

use crate::codes::{Code, Outcome};
use crate::handle::{GpuInstanceHandle, Handle, Target};
use crate::layout::layout;
use crate::library::{Library, Now, call};
use crate::permission;
use crate::pointer::{List, Place};
use crate::profile::{self, PlacementInfo};

/// `nvmlGpuInstanceInfo_t`.
#[repr(C)]
struct Info {
    device: Handle,
    id: u32,
    profile: u32,
    placement: PlacementInfo,
}

layout!(Info, 24: device 0, id 8, profile 12, placement 16);

/// A GPU instance as it is now.
pub struct Found {
    /// Its card.
    pub now: Now,
    /// The instance.
    pub gpu: GpuInstance,
    /// What its card can be cut into.
    pub table: &'static MigTable,
    /// What it was made as.
    pub profile: &'static GpuProfile,
}

/// The GPU instance of a handle; one that is gone is an invalid argument.
pub fn find(library: &Library, handle: GpuInstanceHandle) -> Outcome<Found> {
    let (place, id) = handle.parts()?;
    let now = library.now_at(place)?;
    let gpu = now.held.instances.iter().find(|gpu| gpu.id == id).ok_or(Code::INVALID_ARGUMENT)?.clone();
    let table = profile::table(&now)?;
    let profile = table.by_index(gpu.profile).ok_or(Code::UNKNOWN)?;
    Ok(Found { now, gpu, table, profile })
}

/// Only who has the capability to configure MIG makes and destroys instances.
pub fn may_configure(library: &Library) -> Outcome {
    let may = permission::is_root() && permission::has(library.root.path(), Capability::Config);
    if may { Ok(()) } else { Err(Code::NO_PERMISSION) }
}

/// Only who may see all instances gets a list of them.
pub fn may_list(library: &Library) -> Outcome {
    if permission::sees_everything(library.root.path()) { Ok(()) } else { Err(Code::NO_PERMISSION) }
}

/// A card in MIG mode, and what it can be cut into.
fn in_mig_mode(library: &Library, device: Handle) -> Outcome<(Now, &'static MigTable)> {
    let now = library.now(device)?;
    let table = profile::table(&now)?;
    if now.held.settings.mig { Ok((now, table)) } else { Err(Code::NOT_SUPPORTED) }
}

fn create(
    library: &Library,
    device: Handle,
    profile: u32,
    start: Option<u32>,
    made: Place<GpuInstanceHandle>,
) -> Outcome {
    made.exists()?;
    let (now, table) = in_mig_mode(library, device)?;
    may_configure(library)?;
    let profile = table.by_id(profile).ok_or(Code::INVALID_ARGUMENT)?.index;
    let id = library.administer(now.place, Change::CreateGpuInstance { profile, start })?;
    made.give(GpuInstanceHandle::of(now.place, id.ok_or(Code::UNKNOWN)?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceCreateGpuInstance(device: Handle, profile: u32, made: Place<GpuInstanceHandle>) -> i32 {
    call("nvmlDeviceCreateGpuInstance", |library| create(library, device, profile, None, made))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceCreateGpuInstanceWithPlacement(
    device: Handle,
    profile: u32,
    placement: Place<PlacementInfo>,
    made: Place<GpuInstanceHandle>,
) -> i32 {
    call("nvmlDeviceCreateGpuInstanceWithPlacement", |library| {
        let PlacementInfo { start, size } = placement.take()?;
        let now = library.now(device)?;
        let wanted = profile::table(&now)?.by_id(profile).ok_or(Code::INVALID_ARGUMENT)?;
        if wanted.size != size {
            return Err(Code::INVALID_ARGUMENT);
        }
        create(library, device, profile, Some(start), made)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceDestroy(gpu: GpuInstanceHandle) -> i32 {
    call("nvmlGpuInstanceDestroy", |library| {
        let found = find(library, gpu)?;
        may_configure(library)?;
        library.administer(found.now.place, Change::DestroyGpuInstance { gpu: found.gpu.id }).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceRemainingCapacity(device: Handle, profile: u32, count: Place<u32>) -> i32 {
    call("nvmlDeviceGetGpuInstanceRemainingCapacity", |library| {
        let (now, table) = in_mig_mode(library, device)?;
        may_list(library)?;
        let profile = table.by_id(profile).ok_or(Code::NOT_SUPPORTED)?;
        count.give(remaining(table, &now.held.instances, profile))
    })
}

/// How many more of that kind fit. Places of one kind never overlap each other.
fn remaining(table: &MigTable, instances: &[GpuInstance], profile: &GpuProfile) -> u32 {
    let there: Vec<_> = instances.iter().map(|gpu| (gpu.profile, gpu.placement)).collect();
    let alike = there.iter().filter(|(index, _)| *index == profile.index).count() as u32;
    (possible(table, &there, profile).len() as u32).min(profile.most.saturating_sub(alike))
}

/// The caller has room for as many as there can be of that profile.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstances(
    device: Handle,
    profile: u32,
    list: List<GpuInstanceHandle>,
    count: Place<u32>,
) -> i32 {
    call("nvmlDeviceGetGpuInstances", |library| {
        let (now, table) = in_mig_mode(library, device)?;
        may_list(library)?;
        if list.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        let index = table.by_id(profile).ok_or(Code::INVALID_ARGUMENT)?.index;
        let of_kind = now.held.instances.iter().filter(|gpu| gpu.profile == index);
        list.fill_unchecked(count, of_kind.map(|gpu| GpuInstanceHandle::of(now.place, gpu.id)).collect())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceById(device: Handle, id: u32, found: Place<GpuInstanceHandle>) -> i32 {
    call("nvmlDeviceGetGpuInstanceById", |library| {
        let (now, _) = in_mig_mode(library, device)?;
        let minor = now.held.card.minor;
        may_list(library).or_else(|code| {
            let own = permission::has(library.root.path(), Capability::GpuInstance(minor, id));
            if own { Ok(()) } else { Err(code) }
        })?;
        if !now.held.instances.iter().any(|gpu| gpu.id == id) {
            return Err(Code::NOT_FOUND);
        }
        found.give(GpuInstanceHandle::of(now.place, id))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceGetInfo(gpu: GpuInstanceHandle, info: Place<Info>) -> i32 {
    call("nvmlGpuInstanceGetInfo", |library| {
        let Found { now, gpu, profile, .. } = find(library, gpu)?;
        info.give(Info {
            device: Handle::of(Target::Card(now.place)),
            id: gpu.id,
            profile: profile.id,
            placement: PlacementInfo { start: gpu.placement.start, size: gpu.placement.size },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_sim_model::{Model, choose, gpu_instance_id};

    /// `nvidia-smi mig -lgip` of the MIG user guide: of an A100 with two 3g.20gb nothing is left; with one, the rest is.
    #[test]
    fn what_is_left_is_what_nvidia_smi_lists() {
        let table = Model::of_word("a100-40").and_then(|model| model.mig).expect("a table");
        let mut there = Vec::new();
        let left = |there: &[GpuInstance]| -> Vec<u32> {
            table.profiles.iter().map(|profile| remaining(table, there, profile)).collect()
        };
        assert_eq!(left(&there), [7, 1, 4, 3, 2, 1, 1]);
        for free in [[4, 1, 2, 2, 1, 1, 0], [0; 7]] {
            let profile = table.by_id(9).expect("3g.20gb");
            let places: Vec<_> = there.iter().map(|gpu: &GpuInstance| (gpu.profile, gpu.placement)).collect();
            let placement = choose(table, &places, profile).expect("room");
            let id = gpu_instance_id(table.memory_slices, placement);
            there.push(GpuInstance { id, profile: 2, placement, memory: 0, used: 0, compute: Vec::new() });
            assert_eq!(left(&there), free);
        }
    }
}
