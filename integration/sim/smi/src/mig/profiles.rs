//! `-lgip`, `-lgipp`, `-lcip`.

use nvml_wrapper_sys::bindings::nvmlGpuInstancePlacement_t;

use super::{GpuProfile, compute_instances, gpu_instances_of, gpu_profiles};
use crate::device::Device;
use crate::nvml::ask;
use crate::outcome::{Code, Failure, NOT_FOUND, Outcome};

/// The most places of one profile.
const MOST_PLACES: usize = 16;

/// Where a profile may lie.
pub fn places(device: Device<'_>, profile: u32) -> Result<Vec<nvmlGpuInstancePlacement_t>, Code> {
    let (mut list, mut count) = ([nvmlGpuInstancePlacement_t { start: 0, size: 0 }; MOST_PLACES], MOST_PLACES as u32);
    let nvml = &device.nvml.0;
    // SAFETY: there is room for more places than a card has slices.
    let code = unsafe {
        let place = list.as_mut_ptr();
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2(device.handle, profile, place, &raw mut count)
    };
    if code == 0 { Ok(list[..(count as usize).min(MOST_PLACES)].to_vec()) } else { Err(code) }
}

/// GiB with two decimals, of MiB.
fn gibibytes(mebibytes: u64) -> String {
    format!("{:.2}", mebibytes as f64 / 1024.0)
}

/// `-lgip`
pub fn gpu(devices: &[Device<'_>]) -> Outcome {
    const EDGE: &str = "+-------------------------------------------------------------------------------+";
    println!("{EDGE}");
    println!("| GPU instance profiles:                                                        |");
    println!("| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |");
    println!("|                                Free/Total   GiB              CE    JPEG  OFA  |");
    println!("|===============================================================================|");
    for device in devices {
        let nvml = device.nvml;
        let failed = |code| Failure::of(code, format!("Failed to list GPU instance profiles: {}", nvml.text_of(code)));
        let card = device.index().map_err(failed)?;
        for profile in gpu_profiles(*device).map_err(failed)? {
            let GpuProfile(info) = profile;
            let left = ask!(nvml, nvmlDeviceGetGpuInstanceRemainingCapacity(device.handle, info.id) -> u32);
            println!(
                "| {card:>3}  {:<18} {:>3}     {}/{:<2}     {:>6}      {}   {:>4}    {:>2}    {:>2}   |",
                profile.name(),
                info.id,
                left.map_err(failed)?,
                info.instanceCount,
                gibibytes(info.memorySizeMB),
                if info.isP2pSupported == 0 { "No " } else { "Yes" },
                info.multiprocessorCount,
                info.decoderCount,
                info.encoderCount
            );
            println!(
                "|                                                            {:>4}    {:>2}    {:>2}   |",
                info.copyEngineCount, info.jpegCount, info.ofaCount
            );
            println!("{EDGE}");
        }
    }
    Ok(())
}

/// `-lgipp`
pub fn placements(devices: &[Device<'_>]) -> Outcome {
    for device in devices {
        let nvml = device.nvml;
        let failed = |code| Failure::of(code, format!("Failed to list placements: {}", nvml.text_of(code)));
        let card = device.index().map_err(failed)?;
        for GpuProfile(info) in gpu_profiles(*device).map_err(failed)? {
            let places = places(*device, info.id).map_err(failed)?;
            println!("{}", placement_line(card, info.id, &places));
        }
    }
    Ok(())
}

fn placement_line(card: u32, profile: u32, places: &[nvmlGpuInstancePlacement_t]) -> String {
    let starts: Vec<String> = places.iter().map(|place| place.start.to_string()).collect();
    let word = if places.len() == 1 { "Placement " } else { "Placements" };
    let size = places.first().map_or(0, |place| place.size);
    format!("GPU {card:>2} Profile ID {profile:>2} {word}: {{{}}}:{size}", starts.join(","))
}

/// `-lcip`: a star marks the one that fills its GPU instance.
pub fn compute(devices: &[Device<'_>], named: Option<&[u32]>) -> Outcome {
    const EDGE: &str = "+--------------------------------------------------------------------------------------+";
    let mut lines = Vec::new();
    for device in devices {
        let nvml = device.nvml;
        let failed =
            |code| Failure::of(code, format!("Failed to list compute instance profiles: {}", nvml.text_of(code)));
        let card = device.index().map_err(failed)?;
        for gpu in gpu_instances_of(*device, named).map_err(failed)? {
            for profile in compute_instances::profiles(*device, &gpu).map_err(failed)? {
                let info = profile.0;
                let left = ask!(nvml, nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gpu.handle, info.id) -> u32);
                let star = if info.sliceCount == gpu.profile.0.sliceCount { "*" } else { " " };
                lines.push(format!(
                    "| {card:>3}     {:>2}       {:<18} {:>3}{star}     {}/{}          {:>3}      {:>3}   {:>3}   {:>3}   |",
                    gpu.id,
                    profile.name(),
                    info.id,
                    left.map_err(failed)?,
                    info.instanceCount,
                    info.multiprocessorCount,
                    info.sharedDecoderCount,
                    info.sharedEncoderCount,
                    info.sharedOfaCount
                ));
                lines.push(format!(
                    "|                                                                    {:>3}   {:>3}         |",
                    info.sharedCopyEngineCount, info.sharedJpegCount
                ));
                lines.push(EDGE.to_owned());
            }
        }
    }
    if lines.is_empty() {
        return Err(Failure::of(NOT_FOUND, "No GPU instances found: Not Found"));
    }
    println!("{EDGE}");
    println!("| Compute instance profiles:                                                           |");
    println!("| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |");
    println!("|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |");
    println!("|         ID                                                          CE    JPEG       |");
    println!("|======================================================================================|");
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of the MIG user guide.
    #[test]
    fn places_are_listed_as_the_user_guide_shows_them() {
        let at = |start, size| nvmlGpuInstancePlacement_t { start, size };
        let four = [at(0, 2), at(2, 2), at(4, 2), at(6, 2)];
        assert_eq!(placement_line(0, 15, &four), "GPU  0 Profile ID 15 Placements: {0,2,4,6}:2");
        assert_eq!(placement_line(0, 0, &[at(0, 8)]), "GPU  0 Profile ID  0 Placement : {0}:8");
    }
}
