//! Compute instances: made, found, destroyed.

use baton_sim_model::Capability;
use baton_sim_wire::{Change, ComputeInstance, InstanceId, Placement};

use crate::codes::{Code, Outcome};
use crate::gpu_instance::{self, Found, may_configure, may_list};
use crate::handle::{ComputeInstanceHandle, GpuInstanceHandle, Handle, Target};
use crate::layout::layout;
use crate::library::{Library, call};
use crate::permission;
use crate::pointer::{List, Place};
use crate::profile::{self, PlacementInfo};

/// What `nvmlComputeInstanceGetInfo` gives: `nvmlComputeInstanceInfo_t` as it was before placements.
#[repr(C)]
struct InfoV1 {
    device: Handle,
    gpu_instance: GpuInstanceHandle,
    id: u32,
    profile: u32,
}

layout!(InfoV1, 24: device 0, gpu_instance 8, id 16, profile 20);

/// `nvmlComputeInstanceInfo_t`.
#[repr(C)]
struct Info {
    first: InfoV1,
    placement: PlacementInfo,
}

layout!(Info, 32: first 0, placement 24);

fn create(
    library: &Library,
    handle: GpuInstanceHandle,
    profile: u32,
    start: Option<u32>,
    made: Place<ComputeInstanceHandle>,
) -> Outcome {
    made.exists()?;
    let found = gpu_instance::find(library, handle)?;
    may_configure(library)?;
    profile::compute_profile(&found, profile)?;
    let change = Change::CreateComputeInstance { gpu: found.gpu.id, profile, start };
    let compute = library.administer(found.now.place, change)?.ok_or(Code::UNKNOWN)?;
    made.give(ComputeInstanceHandle::of(found.now.place, InstanceId { gpu: found.gpu.id, compute }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceCreateComputeInstance(
    gpu: GpuInstanceHandle,
    profile: u32,
    made: Place<ComputeInstanceHandle>,
) -> i32 {
    call("nvmlGpuInstanceCreateComputeInstance", |library| create(library, gpu, profile, None, made))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceCreateComputeInstanceWithPlacement(
    gpu: GpuInstanceHandle,
    profile: u32,
    placement: Place<PlacementInfo>,
    made: Place<ComputeInstanceHandle>,
) -> i32 {
    call("nvmlGpuInstanceCreateComputeInstanceWithPlacement", |library| {
        let PlacementInfo { start, size } = placement.take()?;
        if profile::compute_profile(&gpu_instance::find(library, gpu)?, profile)?.slices != size {
            return Err(Code::INVALID_ARGUMENT);
        }
        create(library, gpu, profile, Some(start), made)
    })
}

/// A compute instance of a handle, with its GPU instance; one that is gone is an invalid argument.
fn find(library: &Library, handle: ComputeInstanceHandle) -> Outcome<(Found, ComputeInstance)> {
    let (place, instance) = handle.parts()?;
    let found = gpu_instance::find(library, GpuInstanceHandle::of(place, instance.gpu))?;
    let compute = found.gpu.compute.iter().find(|compute| compute.id == instance.compute);
    let compute = compute.ok_or(Code::INVALID_ARGUMENT)?.clone();
    Ok((found, compute))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlComputeInstanceDestroy(handle: ComputeInstanceHandle) -> i32 {
    call("nvmlComputeInstanceDestroy", |library| {
        let (found, compute) = find(library, handle)?;
        may_configure(library)?;
        let instance = InstanceId { gpu: found.gpu.id, compute: compute.id };
        library.administer(found.now.place, Change::DestroyComputeInstance { instance }).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceGetComputeInstanceRemainingCapacity(
    gpu: GpuInstanceHandle,
    profile: u32,
    count: Place<u32>,
) -> i32 {
    call("nvmlGpuInstanceGetComputeInstanceRemainingCapacity", |library| {
        let found = gpu_instance::find(library, gpu)?;
        may_list(library)?;
        let size = profile::compute_profile(&found, profile)?.slices;
        count.give(remaining(found.profile.compute_slices, &found.gpu.compute, size))
    })
}

/// How many more of `size` slices fit, laid as the driver lays them: into the first gap.
fn remaining(slices: u32, there: &[ComputeInstance], size: u32) -> u32 {
    let mut taken: Vec<Placement> = there.iter().map(|compute| compute.placement).collect();
    let before = taken.len();
    for start in 0..=slices.saturating_sub(size) {
        let new = Placement { start, size };
        if !taken.iter().any(|other| other.overlaps(new)) {
            taken.push(new);
        }
    }
    (taken.len() - before) as u32
}

/// The caller has room for as many as there can be of that profile.
#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceGetComputeInstances(
    gpu: GpuInstanceHandle,
    profile: u32,
    list: List<ComputeInstanceHandle>,
    count: Place<u32>,
) -> i32 {
    call("nvmlGpuInstanceGetComputeInstances", |library| {
        let found = gpu_instance::find(library, gpu)?;
        may_list(library)?;
        if list.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        profile::compute_profile(&found, profile)?;
        let id = |compute: &ComputeInstance| InstanceId { gpu: found.gpu.id, compute: compute.id };
        let of_kind = found.gpu.compute.iter().filter(|compute| compute.profile == profile);
        let handles = of_kind.map(|compute| ComputeInstanceHandle::of(found.now.place, id(compute)));
        list.fill_unchecked(count, handles.collect())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceGetComputeInstanceById(
    gpu: GpuInstanceHandle,
    id: u32,
    to: Place<ComputeInstanceHandle>,
) -> i32 {
    call("nvmlGpuInstanceGetComputeInstanceById", |library| {
        let found = gpu_instance::find(library, gpu)?;
        let instance = InstanceId { gpu: found.gpu.id, compute: id };
        may_list(library).or_else(|code| {
            let capability = Capability::ComputeInstance(found.now.held.card.minor, instance);
            if permission::has(library.root.path(), capability) { Ok(()) } else { Err(code) }
        })?;
        if !found.gpu.compute.iter().any(|compute| compute.id == id) {
            return Err(Code::NOT_FOUND);
        }
        to.give(ComputeInstanceHandle::of(found.now.place, instance))
    })
}

fn info(library: &Library, handle: ComputeInstanceHandle) -> Outcome<Info> {
    let (found, compute) = find(library, handle)?;
    let first = InfoV1 {
        device: Handle::of(Target::Card(found.now.place)),
        gpu_instance: GpuInstanceHandle::of(found.now.place, found.gpu.id),
        id: compute.id,
        profile: compute.profile,
    };
    Ok(Info { first, placement: PlacementInfo { start: compute.placement.start, size: compute.placement.size } })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlComputeInstanceGetInfo_v2(handle: ComputeInstanceHandle, to: Place<Info>) -> i32 {
    call("nvmlComputeInstanceGetInfo_v2", |library| to.give(info(library, handle)?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlComputeInstanceGetInfo(handle: ComputeInstanceHandle, to: Place<InfoV1>) -> i32 {
    call("nvmlComputeInstanceGetInfo", |library| to.give(info(library, handle)?.first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_fits_into_the_gaps() {
        let at = |start, size| ComputeInstance {
            id: 0,
            profile: 0,
            placement: Placement { start, size },
            uuid: String::new(),
        };
        assert_eq!(remaining(7, &[], 1), 7);
        assert_eq!(remaining(7, &[], 2), 3);
        assert_eq!(remaining(7, &[at(1, 1)], 3), 1);
        assert_eq!(remaining(7, &[at(3, 1)], 4), 0);
        assert_eq!(remaining(3, &[at(0, 3)], 1), 0);
    }
}
