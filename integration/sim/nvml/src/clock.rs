//! Clocks, in MHz.

use crate::codes::{Code, Outcome};
use crate::figures::{Figures, figures, number};
use crate::handle::Handle;
use crate::library::call;
use crate::pointer::{List, Place};

/// MHz by which the clocks that can be asked for differ, and the lowest.
const STEP: (u32, u32) = (15, 210);

/// `nvmlClockType_t`: graphics, SM, memory, video.
fn highest(figures: &Figures, kind: u32) -> Outcome<u32> {
    match kind {
        0 | 1 => Ok(figures.graphics),
        2 => Ok(figures.memory),
        3 => Ok(figures.graphics * 9 / 10),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClockInfo(device: Handle, kind: u32, clock: Place<u32>) -> i32 {
    number("nvmlDeviceGetClockInfo", device, clock, |figures, works| {
        let highest = highest(figures, kind)?;
        Ok(if works || kind == 2 { highest } else { STEP.1 })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxClockInfo(device: Handle, kind: u32, clock: Place<u32>) -> i32 {
    number("nvmlDeviceGetMaxClockInfo", device, clock, |figures, _| highest(figures, kind))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxCustomerBoostClock(device: Handle, kind: u32, clock: Place<u32>) -> i32 {
    number("nvmlDeviceGetMaxCustomerBoostClock", device, clock, |figures, _| highest(figures, kind))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetApplicationsClock(device: Handle, kind: u32, clock: Place<u32>) -> i32 {
    number("nvmlDeviceGetApplicationsClock", device, clock, |figures, _| highest(figures, kind))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDefaultApplicationsClock(device: Handle, kind: u32, clock: Place<u32>) -> i32 {
    number("nvmlDeviceGetDefaultApplicationsClock", device, clock, |figures, _| highest(figures, kind))
}

/// `nvmlClockId_t`: now, and the three that are the highest here.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClock(device: Handle, kind: u32, id: u32, clock: Place<u32>) -> i32 {
    number("nvmlDeviceGetClock", device, clock, |figures, works| match id {
        0 if !works && kind != 2 => highest(figures, kind).map(|_| STEP.1),
        0..4 => highest(figures, kind),
        _ => Err(Code::INVALID_ARGUMENT),
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSupportedMemoryClocks(device: Handle, count: Place<u32>, list: List<u32>) -> i32 {
    call("nvmlDeviceGetSupportedMemoryClocks", |library| {
        let model = library.now(device)?.model()?;
        list.fill(count, vec![figures(model)?.memory])
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSupportedGraphicsClocks(
    device: Handle,
    memory: u32,
    count: Place<u32>,
    list: List<u32>,
) -> i32 {
    call("nvmlDeviceGetSupportedGraphicsClocks", |library| {
        let figures = figures(library.now(device)?.model()?)?;
        if memory != figures.memory {
            return Err(Code::NOT_FOUND);
        }
        list.fill(count, (STEP.1..=figures.graphics).rev().step_by(STEP.0 as usize).collect())
    })
}

/// Nothing slows it; it idles (`nvmlClocksEventReasonGpuIdle`).
fn reasons(name: &str, device: Handle, reasons: Place<u64>) -> i32 {
    number(name, device, reasons, |_, works| Ok(u64::from(!works)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(device: Handle, to: Place<u64>) -> i32 {
    reasons("nvmlDeviceGetCurrentClocksThrottleReasons", device, to)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrentClocksEventReasons(device: Handle, to: Place<u64>) -> i32 {
    reasons("nvmlDeviceGetCurrentClocksEventReasons", device, to)
}
