//! What a card draws, and how fast it may go.

use crate::codes::Outcome;
use crate::figures::{Figures, figures, number, works};
use crate::handle::Handle;
use crate::library::Library;
use crate::pointer::Place;

/// Of the limit, in per cent, by a card that idles and by one that works.
const POWER: [u32; 2] = [10, 60];
fn power(figures: &Figures, works: bool) -> u32 {
    figures.watts * 10 * POWER[usize::from(works)]
}

/// What the card draws now, in milliwatts.
pub fn power_now(library: &Library, device: Handle) -> Outcome<u32> {
    let now = library.now(device)?;
    Ok(power(figures(now.model()?)?, works(&now.held)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerUsage(device: Handle, milliwatts: Place<u32>) -> i32 {
    number("nvmlDeviceGetPowerUsage", device, milliwatts, |figures, works| Ok(power(figures, works)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementLimit(device: Handle, limit: Place<u32>) -> i32 {
    number("nvmlDeviceGetPowerManagementLimit", device, limit, |figures, _| Ok(figures.watts * 1000))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementDefaultLimit(device: Handle, limit: Place<u32>) -> i32 {
    number("nvmlDeviceGetPowerManagementDefaultLimit", device, limit, |figures, _| Ok(figures.watts * 1000))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, limit: Place<u32>) -> i32 {
    number("nvmlDeviceGetEnforcedPowerLimit", device, limit, |figures, _| Ok(figures.watts * 1000))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementLimitConstraints(device: Handle, least: Place<u32>, most: Place<u32>) -> i32 {
    number("nvmlDeviceGetPowerManagementLimitConstraints", device, least, |figures, _| {
        most.give(figures.watts * 1000)?;
        Ok(figures.watts * 250)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementMode(device: Handle, mode: Place<u32>) -> i32 {
    number("nvmlDeviceGetPowerManagementMode", device, mode, |_, _| Ok(1))
}

/// Millijoules since the driver was loaded: what it draws, by the machine's clock.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: Handle, millijoules: Place<u64>) -> i32 {
    number("nvmlDeviceGetTotalEnergyConsumption", device, millijoules, |figures, _| {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        let seconds: f64 = uptime.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0);
        Ok((seconds * f64::from(power(figures, false))) as u64)
    })
}

/// `NVML_PSTATE_0`.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPerformanceState(device: Handle, state: Place<u32>) -> i32 {
    number("nvmlDeviceGetPerformanceState", device, state, |_, _| Ok(0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerState(device: Handle, state: Place<u32>) -> i32 {
    number("nvmlDeviceGetPowerState", device, state, |_, _| Ok(0))
}
