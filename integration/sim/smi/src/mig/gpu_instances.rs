//! `-lgi`, `-cgi`, `-dgi`.

use nvml_wrapper_sys::bindings::{
    nvmlGpuInstance_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_v2_t,
};

use super::arguments::Wanted;
use super::{GpuInstance, GpuProfile, MOST_INSTANCES, compute_instances, gpu_instances_of, gpu_profiles};
use crate::device::Device;
use crate::nvml::ask;
use crate::outcome::{Code, Failure, INVALID_ARGUMENT, NOT_FOUND, Outcome};

/// `nvmlGpuInstanceProfileInfo_v2`.
const VERSION: u32 = 0x0200_0098;

/// The profile with that index of NVML's.
pub fn profile(device: Device<'_>, index: u32) -> Result<GpuProfile, Code> {
    let mut info = std::mem::MaybeUninit::<nvmlGpuInstanceProfileInfo_v2_t>::zeroed();
    // SAFETY: the version is the first member of the struct, which may be zero otherwise, and says that it is this one.
    let code = unsafe {
        info.as_mut_ptr().cast::<u32>().write(VERSION);
        device.nvml.0.nvmlDeviceGetGpuInstanceProfileInfoV(device.handle, index, info.as_mut_ptr())
    };
    // SAFETY: zeros and numbers.
    if code == 0 { Ok(GpuProfile(unsafe { info.assume_init() })) } else { Err(code) }
}

/// The GPU instances of one kind.
pub fn of_profile(device: Device<'_>, profile: GpuProfile) -> Result<Vec<GpuInstance>, Code> {
    let (mut handles, mut count): ([nvmlGpuInstance_t; MOST_INSTANCES], u32) =
        ([std::ptr::null_mut(); MOST_INSTANCES], 0);
    // SAFETY: there is room for as many as there can be of one kind.
    let code = unsafe {
        device.nvml.0.nvmlDeviceGetGpuInstances(device.handle, profile.0.id, handles.as_mut_ptr(), &raw mut count)
    };
    if code != 0 {
        return Err(code);
    }
    handles[..count as usize].iter().map(|handle| known(device, *handle, profile)).collect()
}

fn known(device: Device<'_>, handle: nvmlGpuInstance_t, profile: GpuProfile) -> Result<GpuInstance, Code> {
    let info = ask!(device.nvml, nvmlGpuInstanceGetInfo(handle) -> nvmlGpuInstanceInfo_t)?;
    Ok(GpuInstance { handle, id: info.id, profile, start: info.placement.start, size: info.placement.size })
}

/// `-lgi`
pub fn list(devices: &[Device<'_>]) -> Outcome {
    const EDGE: &str = "+---------------------------------------------------------+";
    let mut lines = Vec::new();
    for device in devices {
        let failed = |code| Failure::of(code, format!("Failed to list GPU instances: {}", device.nvml.text_of(code)));
        for gpu in gpu_instances_of(*device, None).map_err(failed)? {
            lines.push(format!(
                "| {:>3}  {:<19} {:>3}      {:>3}         {:>5}     |",
                device.index().map_err(failed)?,
                gpu.profile.name(),
                gpu.profile.0.id,
                gpu.id,
                format!("{}:{}", gpu.start, gpu.size)
            ));
        }
    }
    if lines.is_empty() {
        return Err(Failure::of(NOT_FOUND, "No GPU instances found: Not Found"));
    }
    println!("{EDGE}");
    println!("| GPU instances:                                          |");
    println!("| GPU   Name               Profile  Instance   Placement  |");
    println!("|                            ID       ID       Start:Size |");
    println!("|=========================================================|");
    for line in lines {
        println!("{line}\n{EDGE}");
    }
    Ok(())
}

/// The profile that is asked for, by number or name.
fn find(profiles: &[GpuProfile], wanted: &Wanted) -> Option<GpuProfile> {
    let name = wanted.profile.trim_start_matches("MIG ");
    let by_name = |profile: &&GpuProfile| profile.name().trim_start_matches("MIG ").eq_ignore_ascii_case(name);
    match wanted.profile.parse::<u32>() {
        Ok(id) => profiles.iter().find(|profile| profile.0.id == id).copied(),
        Err(_) => profiles.iter().find(by_name).copied(),
    }
}

/// `-cgi`: on each card, in the order that was asked for; the first that fails ends it.
pub fn create(devices: &[Device<'_>], wanted: &[Wanted], with_compute: bool) -> Outcome {
    for device in devices {
        let nvml = device.nvml;
        let failed = |code| Failure::of(code, format!("Failed to create GPU instances: {}", nvml.text_of(code)));
        let (profiles, card) = (gpu_profiles(*device).map_err(failed)?, device.index().map_err(failed)?);
        for want in wanted {
            let refused = |code| {
                let why = nvml.text_of(code);
                let first =
                    format!("Unable to create a GPU instance on GPU {card:>2} using profile {}: {why}", want.profile);
                Failure::of(code, format!("{first}\nFailed to create GPU instances: {why}"))
            };
            let profile = find(&profiles, want).ok_or_else(|| refused(INVALID_ARGUMENT))?;
            let gpu = create_one(*device, profile, want.start).map_err(refused)?;
            let (id, name) = (gpu.id, profile.name());
            println!(
                "Successfully created GPU instance ID {id:>2} on GPU {card:>2} using profile {name} (ID {:>2})",
                profile.0.id
            );
            if with_compute {
                compute_instances::create_default(*device, card, &gpu)?;
            }
        }
    }
    Ok(())
}

fn create_one(device: Device<'_>, profile: GpuProfile, start: Option<u32>) -> Result<GpuInstance, Code> {
    let id = profile.0.id;
    let made = match start {
        None => ask!(device.nvml, nvmlDeviceCreateGpuInstance(device.handle, id) -> nvmlGpuInstance_t),
        Some(start) => {
            let size = super::profiles::places(device, id)?.first().map_or(0, |place| place.size);
            let place = nvmlGpuInstancePlacement_t { start, size };
            ask!(device.nvml, nvmlDeviceCreateGpuInstanceWithPlacement(device.handle, id, &raw const place) -> nvmlGpuInstance_t)
        }
    };
    known(device, made?, profile)
}

/// `-dgi`: all, or those that are named.
pub fn destroy(devices: &[Device<'_>], named: Option<&[u32]>) -> Outcome {
    let mut found = false;
    for device in devices {
        let nvml = device.nvml;
        let failed = |code| Failure::of(code, format!("Failed to destroy GPU instances: {}", nvml.text_of(code)));
        let card = device.index().map_err(failed)?;
        let mut instances = gpu_instances_of(*device, named).map_err(failed)?;
        instances.sort_by_key(|gpu| gpu.id);
        for gpu in instances {
            found = true;
            // SAFETY: the handle is the library's.
            match unsafe { nvml.0.nvmlGpuInstanceDestroy(gpu.handle) } {
                0 => println!("Successfully destroyed GPU instance ID {:>2} from GPU {card:>2}", gpu.id),
                code => {
                    let why = nvml.text_of(code);
                    let first = format!("Unable to destroy GPU instance ID {:>2} from GPU {card:>2}: {why}", gpu.id);
                    return Err(Failure::of(code, format!("{first}\nFailed to destroy GPU instances: {why}")));
                }
            }
        }
    }
    if found { Ok(()) } else { Err(Failure::of(NOT_FOUND, "No GPU instances found: Not Found")) }
}
