//! `nvidia-smi mig …`

mod arguments;
mod compute_instances;
mod gpu_instances;
mod profiles;

use nvml_wrapper_sys::bindings::{nvmlGpuInstance_t, nvmlGpuInstanceProfileInfo_v2_t};

pub use arguments::{Command, parse};

use crate::device::Device;
use crate::outcome::{Code, Failure, NOT_FOUND, Outcome};

/// `NVML_GPU_INSTANCE_PROFILE_COUNT`, and more, for newer libraries: the first index that is none ends the search.
const MOST_PROFILES: u32 = 64;
/// The most instances of one kind.
const MOST_INSTANCES: usize = 8;

/// Carries the command out on all of the cards that are in MIG mode.
pub fn run(devices: &[Device<'_>], command: &Command) -> Outcome {
    if let Command::Help = command {
        print!("{}", arguments::USAGE);
        return Ok(());
    }
    let in_mig_mode = |device: &&Device<'_>| device.mig_mode().is_ok_and(|(current, _)| current);
    let devices: Vec<Device<'_>> = devices.iter().filter(in_mig_mode).copied().collect();
    if devices.is_empty() {
        return Err(Failure::of(NOT_FOUND, "No MIG-enabled devices found."));
    }
    match command {
        Command::Help => Ok(()),
        Command::GpuProfiles => profiles::gpu(&devices),
        Command::GpuPlacements => profiles::placements(&devices),
        Command::ComputeProfiles { gpu } => profiles::compute(&devices, gpu.as_deref()),
        Command::GpuInstances => gpu_instances::list(&devices),
        Command::CreateGpuInstances { wanted, with_compute } => gpu_instances::create(&devices, wanted, *with_compute),
        Command::DestroyGpuInstances { gpu } => gpu_instances::destroy(&devices, gpu.as_deref()),
        Command::ComputeInstances { gpu } => compute_instances::list(&devices, gpu.as_deref()),
        Command::CreateComputeInstances { wanted, gpu } => compute_instances::create(&devices, wanted, gpu.as_deref()),
        Command::DestroyComputeInstances { gpu, compute } => {
            compute_instances::destroy(&devices, gpu.as_deref(), compute.as_deref())
        }
    }
}

/// A kind of GPU instance as the library describes it.
#[derive(Clone, Copy)]
struct GpuProfile(nvmlGpuInstanceProfileInfo_v2_t);

impl GpuProfile {
    /// `MIG 3g.20gb`.
    fn name(&self) -> String {
        text(&self.0.name)
    }
}

/// A text in a member of a struct.
fn text(member: &[std::ffi::c_char]) -> String {
    member.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
}

/// A GPU instance, with its numbers.
#[derive(Clone, Copy)]
struct GpuInstance {
    handle: nvmlGpuInstance_t,
    id: u32,
    profile: GpuProfile,
    start: u32,
    size: u32,
}

/// What the card can be cut into, in the order in which `-lgip` lists it: the smallest first.
fn gpu_profiles(device: Device<'_>) -> Result<Vec<GpuProfile>, Code> {
    let mut found = Vec::new();
    for index in 0..MOST_PROFILES {
        match gpu_instances::profile(device, index) {
            Ok(profile) => found.push(profile),
            Err(crate::outcome::NOT_SUPPORTED) => {}
            Err(crate::outcome::INVALID_ARGUMENT) => break,
            Err(code) => return Err(code),
        }
    }
    // With more engines of the same size, and with more memory, after those with less.
    found
        .sort_by_key(|profile| (profile.0.sliceCount, profile.0.memorySizeMB, profile.0.jpegCount, profile.0.ofaCount));
    Ok(found)
}

/// The GPU instances of a card, by kind and number; of those that are named, if any are.
fn gpu_instances_of(device: Device<'_>, named: Option<&[u32]>) -> Result<Vec<GpuInstance>, Code> {
    let mut found = Vec::new();
    for profile in gpu_profiles(device)? {
        found.extend(gpu_instances::of_profile(device, profile)?);
    }
    found.retain(|gpu| named.is_none_or(|named| named.contains(&gpu.id)));
    Ok(found)
}
