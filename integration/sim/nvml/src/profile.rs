//! What cards and GPU instances can be cut into.

use baton_sim_model::{ComputeProfile, GpuProfile, MigTable};

use crate::codes::{Code, Outcome};
use crate::gpu_instance::{self, Found};
use crate::handle::{GpuInstanceHandle, Handle};
use crate::layout::layout;
use crate::library::{Library, Now, call};
use crate::pointer::{List, Place, Versioned, padded, struct_version};
use crate::profile_layout::{
    ComputeProfileInfo, ComputeProfileInfoV2, ComputeProfileInfoV3, GpuCounts, GpuProfileInfo, GpuProfileInfoV2,
    GpuProfileInfoV3,
};

/// `NVML_GPU_INSTANCE_PROFILE_COUNT` of the newest bindings; there are that many indices, and no card has them all.
const GPU_PROFILES: u32 = 0x12;
/// `NVML_COMPUTE_INSTANCE_PROFILE_COUNT`, likewise.
const COMPUTE_PROFILES: u32 = 9;

/// `nvmlGpuInstancePlacement_t` and `nvmlComputeInstancePlacement_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacementInfo {
    /// First slice.
    pub start: u32,
    /// How many.
    pub size: u32,
}

layout!(PlacementInfo, 8: start 0, size 4);

/// `3g.20gb`, or `1c.3g.20gb` for a part of one.
pub fn compute_name(of: &GpuProfile, slices: u32) -> String {
    if slices == of.compute_slices { of.name.to_owned() } else { format!("{slices}c.{}", of.name) }
}

/// The multiprocessors of a compute instance: a part has as many as a GPU instance of its size.
pub fn compute_multiprocessors(table: &MigTable, of: &GpuProfile, slices: u32) -> u32 {
    let alike = || table.profiles.iter().find(|profile| profile.compute_slices == slices);
    if slices == of.compute_slices { of.multiprocessors } else { alike().map_or(0, |profile| profile.multiprocessors) }
}

/// The table of a card that can be cut.
pub fn table(now: &Now) -> Outcome<&'static MigTable> {
    now.model()?.mig.ok_or(Code::NOT_SUPPORTED)
}

fn gpu_profile(library: &Library, device: Handle, index: u32) -> Outcome<&'static GpuProfile> {
    let now = library.now(device)?;
    if index >= GPU_PROFILES {
        return Err(Code::INVALID_ARGUMENT);
    }
    table(&now)?.by_index(index).ok_or(Code::NOT_SUPPORTED)
}

/// A compute instance's profile, by its index, and how many fit into the GPU instance.
pub fn compute_profile(found: &Found, index: u32) -> Outcome<ComputeProfile> {
    if index >= COMPUTE_PROFILES {
        return Err(Code::INVALID_ARGUMENT);
    }
    let fitting = found.table.compute_profiles(found.profile);
    fitting.into_iter().find(|profile| profile.index == index).ok_or(Code::NOT_SUPPORTED)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceProfileInfo(device: Handle, index: u32, info: Place<GpuProfileInfo>) -> i32 {
    call("nvmlDeviceGetGpuInstanceProfileInfo", |library| {
        let profile = gpu_profile(library, device, index)?;
        let counts = GpuCounts::of(profile);
        info.give(GpuProfileInfo { id: profile.id, p2p: 0, counts, mebibytes: profile.mebibytes })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceProfileInfoV(device: Handle, index: u32, info: Versioned) -> i32 {
    call("nvmlDeviceGetGpuInstanceProfileInfoV", |library| give_info(info, gpu_profile(library, device, index)?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceProfileInfoByIdV(device: Handle, id: u32, info: Versioned) -> i32 {
    call("nvmlDeviceGetGpuInstanceProfileInfoByIdV", |library| {
        let now = library.now(device)?;
        give_info(info, table(&now)?.by_id(id).ok_or(Code::NOT_SUPPORTED)?)
    })
}

/// In the version that the caller has.
fn give_info(info: Versioned, profile: &GpuProfile) -> Outcome {
    let (version, id, counts, mebibytes) = (info.version()?, profile.id, GpuCounts::of(profile), profile.mebibytes);
    let name = padded(&format!("MIG {}", profile.name));
    if version == struct_version::<GpuProfileInfoV2>(2) {
        info.must_be(2)?.give(GpuProfileInfoV2 { version, id, p2p: 0, counts, mebibytes, name })
    } else if version == struct_version::<GpuProfileInfoV3>(3) {
        info.must_be(3)?.give(GpuProfileInfoV3 { version, id, counts, mebibytes, name, capabilities: 0 })
    } else {
        Err(Code::INVALID_ARGUMENT)
    }
}

/// All places, taken or not.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    device: Handle,
    profile: u32,
    list: List<PlacementInfo>,
    count: Place<u32>,
) -> i32 {
    call("nvmlDeviceGetGpuInstancePossiblePlacements_v2", |library| {
        let now = library.now(device)?;
        let profile = table(&now)?.by_id(profile).ok_or(Code::NOT_SUPPORTED)?;
        let places = profile.starts.iter().map(|start| PlacementInfo { start: *start, size: profile.size }).collect();
        give_places(list, count, places)
    })
}

/// Without a list, only how many there are.
fn give_places(list: List<PlacementInfo>, count: Place<u32>, places: Vec<PlacementInfo>) -> Outcome {
    if list.is_null() { count.give(places.len() as u32) } else { list.fill_unchecked(count, places) }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstancePossiblePlacements(
    device: Handle,
    profile: u32,
    list: List<PlacementInfo>,
    count: Place<u32>,
) -> i32 {
    nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profile, list, count)
}

fn compute_info(found: &Found, index: u32, engines: u32) -> Outcome<ComputeProfileInfo> {
    // `NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED` is the only one.
    if engines != 0 {
        return Err(Code::INVALID_ARGUMENT);
    }
    let profile = compute_profile(found, index)?;
    let (of, slices) = (found.profile, profile.slices);
    Ok(ComputeProfileInfo {
        id: profile.index,
        slices,
        instances: of.compute_slices / slices,
        multiprocessors: compute_multiprocessors(found.table, of, slices),
        copy_engines: of.engines.copy,
        decoders: of.engines.decoder,
        encoders: of.engines.encoder,
        jpeg_decoders: of.engines.jpeg,
        ofa: of.engines.ofa,
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
    gpu: GpuInstanceHandle,
    index: u32,
    engines: u32,
    info: Place<ComputeProfileInfo>,
) -> i32 {
    call("nvmlGpuInstanceGetComputeInstanceProfileInfo", |library| {
        info.give(compute_info(&gpu_instance::find(library, gpu)?, index, engines)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(
    gpu: GpuInstanceHandle,
    index: u32,
    engines: u32,
    info: Versioned,
) -> i32 {
    call("nvmlGpuInstanceGetComputeInstanceProfileInfoV", |library| {
        let found = gpu_instance::find(library, gpu)?;
        let first = compute_info(&found, index, engines)?;
        let name = padded(&format!("MIG {}", compute_name(found.profile, first.slices)));
        let version = info.version()?;
        let second = ComputeProfileInfoV2 { version, first, name };
        if version == struct_version::<ComputeProfileInfoV2>(2) {
            info.must_be(2)?.give(second)
        } else if version == struct_version::<ComputeProfileInfoV3>(3) {
            info.must_be(3)?.give(ComputeProfileInfoV3 { second, capabilities: 0 })
        } else {
            Err(Code::INVALID_ARGUMENT)
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceGetComputeInstancePossiblePlacements(
    gpu: GpuInstanceHandle,
    profile: u32,
    list: List<PlacementInfo>,
    count: Place<u32>,
) -> i32 {
    call("nvmlGpuInstanceGetComputeInstancePossiblePlacements", |library| {
        let found = gpu_instance::find(library, gpu)?;
        let size = compute_profile(&found, profile)?.slices;
        let starts = 0..=found.profile.compute_slices - size;
        give_places(list, count, starts.map(|start| PlacementInfo { start, size }).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_sim_model::Model;

    #[test]
    fn a_part_of_an_instance_is_named_and_sized_as_nvidia_smi_lists_it() {
        let table = Model::of_word("a100-40").and_then(|model| model.mig).expect("a table");
        let half = table.by_id(9).expect("3g.20gb");
        assert_eq!((compute_name(half, 3), compute_name(half, 1)), ("3g.20gb".to_owned(), "1c.3g.20gb".to_owned()));
        let all = (1..=3).map(|slices| compute_multiprocessors(table, half, slices));
        assert!(all.eq([14, 28, 42]));
    }
}
