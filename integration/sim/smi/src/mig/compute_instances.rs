//! `-lci`, `-cci`, `-dci`.

use nvml_wrapper_sys::bindings::{
    nvmlComputeInstance_t, nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t,
    nvmlComputeInstanceProfileInfo_v2_t,
};

use super::arguments::Wanted;
use super::{GpuInstance, MOST_INSTANCES, MOST_PROFILES, gpu_instances_of, text};
use crate::device::Device;
use crate::nvml::ask;
use crate::outcome::{Code, Failure, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Outcome};

/// `nvmlComputeInstanceProfileInfo_v2`.
const VERSION: u32 = 0x0200_0088;

/// A kind of compute instance as the library describes it.
#[derive(Clone, Copy)]
pub struct ComputeProfile(pub nvmlComputeInstanceProfileInfo_v2_t);

impl ComputeProfile {
    /// `MIG 1c.3g.20gb`.
    pub fn name(&self) -> String {
        text(&self.0.name)
    }
}

/// What a GPU instance can be cut into.
pub fn profiles(device: Device<'_>, gpu: &GpuInstance) -> Result<Vec<ComputeProfile>, Code> {
    let mut found = Vec::new();
    for index in 0..MOST_PROFILES {
        let mut info = std::mem::MaybeUninit::<nvmlComputeInstanceProfileInfo_v2_t>::zeroed();
        // SAFETY: the version is the first member of the struct, which may be zero otherwise, and says that it is this one.
        let code = unsafe {
            info.as_mut_ptr().cast::<u32>().write(VERSION);
            device.nvml.0.nvmlGpuInstanceGetComputeInstanceProfileInfoV(gpu.handle, index, 0, info.as_mut_ptr())
        };
        match code {
            // SAFETY: zeros and numbers.
            0 => found.push(ComputeProfile(unsafe { info.assume_init() })),
            NOT_SUPPORTED => {}
            INVALID_ARGUMENT => break,
            code => return Err(code),
        }
    }
    Ok(found)
}

struct Known {
    handle: nvmlComputeInstance_t,
    info: nvmlComputeInstanceInfo_t,
    profile: ComputeProfile,
}

/// The compute instances of a GPU instance, by kind and number.
fn of(device: Device<'_>, gpu: &GpuInstance) -> Result<Vec<Known>, Code> {
    let mut found = Vec::new();
    for profile in profiles(device, gpu)? {
        let (mut handles, mut count): ([nvmlComputeInstance_t; MOST_INSTANCES], u32) =
            ([std::ptr::null_mut(); MOST_INSTANCES], 0);
        // SAFETY: there is room for as many as there can be of one kind.
        let code = unsafe {
            let nvml = &device.nvml.0;
            nvml.nvmlGpuInstanceGetComputeInstances(gpu.handle, profile.0.id, handles.as_mut_ptr(), &raw mut count)
        };
        if code != 0 {
            return Err(code);
        }
        for handle in &handles[..count as usize] {
            let info = ask!(device.nvml, nvmlComputeInstanceGetInfo_v2(*handle) -> nvmlComputeInstanceInfo_t)?;
            found.push(Known { handle: *handle, info, profile });
        }
    }
    Ok(found)
}

/// `-lci`
pub fn list(devices: &[Device<'_>], named: Option<&[u32]>) -> Outcome {
    const EDGE: &str = "+--------------------------------------------------------------------+";
    let mut lines = Vec::new();
    for device in devices {
        let nvml = device.nvml;
        let failed = |code| Failure::of(code, format!("Failed to list compute instances: {}", nvml.text_of(code)));
        for gpu in gpu_instances_of(*device, named).map_err(failed)? {
            for compute in of(*device, &gpu).map_err(failed)? {
                let place = compute.info.placement;
                lines.push(format!(
                    "| {:>3}     {:>2}       {:<19} {:>2}        {:>2}        {:>5}     |",
                    device.index().map_err(failed)?,
                    gpu.id,
                    compute.profile.name(),
                    compute.profile.0.id,
                    compute.info.id,
                    format!("{}:{}", place.start, place.size)
                ));
            }
        }
    }
    if lines.is_empty() {
        return Err(Failure::of(NOT_FOUND, "No compute instances found: Not Found"));
    }
    println!("{EDGE}");
    println!("| Compute instances:                                                 |");
    println!("| GPU     GPU       Name             Profile   Instance   Placement  |");
    println!("|       Instance                       ID        ID       Start:Size |");
    println!("|         ID                                                         |");
    println!("|====================================================================|");
    for line in lines {
        println!("{line}\n{EDGE}");
    }
    Ok(())
}

/// The one that fills the GPU instance, as `-C` makes it.
pub fn create_default(device: Device<'_>, card: u32, gpu: &GpuInstance) -> Outcome {
    let failed = |code| Failure::of(code, format!("Failed to create compute instances: {}", device.nvml.text_of(code)));
    let all = profiles(device, gpu).map_err(failed)?;
    let whole = all.into_iter().max_by_key(|profile| profile.0.sliceCount).ok_or_else(|| failed(NOT_FOUND))?;
    create_one(device, card, gpu, whole, None)
}

fn create_one(
    device: Device<'_>,
    card: u32,
    gpu: &GpuInstance,
    profile: ComputeProfile,
    start: Option<u32>,
) -> Outcome {
    let (nvml, id) = (device.nvml, profile.0.id);
    let made = match start {
        None => ask!(nvml, nvmlGpuInstanceCreateComputeInstance(gpu.handle, id) -> nvmlComputeInstance_t),
        Some(start) => {
            let place = nvmlComputeInstancePlacement_t { start, size: profile.0.sliceCount };
            ask!(nvml, nvmlGpuInstanceCreateComputeInstanceWithPlacement(gpu.handle, id, &raw const place) -> nvmlComputeInstance_t)
        }
    };
    let made = made.and_then(|made| ask!(nvml, nvmlComputeInstanceGetInfo_v2(made) -> nvmlComputeInstanceInfo_t));
    let info = made.map_err(|code| refused(device, card, gpu, &id.to_string(), code))?;
    println!(
        "Successfully created compute instance ID {:>2} on GPU {card:>2} GPU instance ID {:>2} using profile {} (ID {id:>2})",
        info.id,
        gpu.id,
        profile.name()
    );
    Ok(())
}

fn refused(device: Device<'_>, card: u32, gpu: &GpuInstance, profile: &str, code: Code) -> Failure {
    let why = device.nvml.text_of(code);
    let place = format!("GPU {card:>2} GPU instance ID {:>2}", gpu.id);
    let first = format!("Unable to create a compute instance on {place} using profile {profile}: {why}");
    Failure::of(code, format!("{first}\nFailed to create compute instances: {why}"))
}

/// `-cci`: in each GPU instance, or in those that are named.
pub fn create(devices: &[Device<'_>], wanted: &[Wanted], named: Option<&[u32]>) -> Outcome {
    let mut found = false;
    for device in devices {
        let nvml = device.nvml;
        let failed = |code| Failure::of(code, format!("Failed to create compute instances: {}", nvml.text_of(code)));
        let card = device.index().map_err(failed)?;
        for gpu in gpu_instances_of(*device, named).map_err(failed)? {
            found = true;
            if wanted.is_empty() {
                create_default(*device, card, &gpu)?;
            }
            let all = profiles(*device, &gpu).map_err(failed)?;
            for want in wanted {
                let fits = |profile: &&ComputeProfile| {
                    let name = want.profile.trim_start_matches("MIG ");
                    let named = profile.name().trim_start_matches("MIG ").eq_ignore_ascii_case(name);
                    want.profile.parse().map_or(named, |id: u32| profile.0.id == id)
                };
                let profile = all.iter().find(fits).copied();
                let unknown = || refused(*device, card, &gpu, &want.profile, INVALID_ARGUMENT);
                create_one(*device, card, &gpu, profile.ok_or_else(unknown)?, want.start)?;
            }
        }
    }
    if found { Ok(()) } else { Err(Failure::of(NOT_FOUND, "No GPU instances found: Not Found")) }
}

/// `-dci`: all, or those that are named.
pub fn destroy(devices: &[Device<'_>], named_gpu: Option<&[u32]>, named: Option<&[u32]>) -> Outcome {
    let mut found = false;
    for device in devices {
        let nvml = device.nvml;
        let failed = |code| Failure::of(code, format!("Failed to destroy compute instances: {}", nvml.text_of(code)));
        let card = device.index().map_err(failed)?;
        for gpu in gpu_instances_of(*device, named_gpu).map_err(failed)? {
            let mut all = of(*device, &gpu).map_err(failed)?;
            all.retain(|compute| named.is_none_or(|named| named.contains(&compute.info.id)));
            all.sort_by_key(|compute| compute.info.id);
            for compute in all {
                found = true;
                let whose = format!(
                    "compute instance ID {:>2} from GPU {card:>2} GPU instance ID {:>2}",
                    compute.info.id, gpu.id
                );
                // SAFETY: the handle is the library's.
                match unsafe { nvml.0.nvmlComputeInstanceDestroy(compute.handle) } {
                    0 => println!("Successfully destroyed {whose}"),
                    code => {
                        let why = nvml.text_of(code);
                        let text =
                            format!("Unable to destroy {whose}: {why}\nFailed to destroy compute instances: {why}");
                        return Err(Failure::of(code, text));
                    }
                }
            }
        }
    }
    if found { Ok(()) } else { Err(Failure::of(NOT_FOUND, "No compute instances found: Not Found")) }
}
