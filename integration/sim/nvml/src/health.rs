//! How a card fares: temperature, load, errors of memory.

use crate::codes::Code;
use crate::figures::{figures, number, works};
use crate::handle::{Handle, Target};
use crate::layout::layout;
use crate::library::call;
use crate::pointer::{Place, Versioned};

/// Degrees Celsius of an idle card, and where it slows down, and where it shuts down.
const TEMPERATURE: [u32; 3] = [31, 89, 92];
/// `nvmlUtilization_t`, in per cent.
#[repr(C)]
struct Utilization {
    gpu: u32,
    memory: u32,
}

layout!(Utilization, 8: gpu 0, memory 4);

/// `nvmlEccErrorCounts_t`.
#[repr(C)]
#[derive(Default)]
struct EccCounts {
    l1: u64,
    l2: u64,
    memory: u64,
    registers: u64,
}

layout!(EccCounts, 32: l1 0, l2 8, memory 16, registers 24);

/// `nvmlTemperature_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Temperature {
    version: u32,
    sensor: u32,
    degrees: i32,
}

layout!(Temperature, 12: version 0, sensor 4, degrees 8);

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(device: Handle, sensor: u32, degrees: Place<u32>) -> i32 {
    number("nvmlDeviceGetTemperature", device, degrees, |_, works| match sensor {
        0 => Ok(TEMPERATURE[0] + if works { 20 } else { 0 }),
        _ => Err(Code::INVALID_ARGUMENT),
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperatureV(device: Handle, temperature: Versioned) -> i32 {
    call("nvmlDeviceGetTemperatureV", |library| {
        let place = temperature.must_be::<Temperature>(1)?;
        let asked = place.take()?;
        let now = library.now(device)?;
        figures(now.model()?)?;
        let degrees = TEMPERATURE[0] as i32 + if works(&now.held) { 20 } else { 0 };
        if asked.sensor == 0 { place.give(Temperature { degrees, ..asked }) } else { Err(Code::INVALID_ARGUMENT) }
    })
}

/// `nvmlTemperatureThresholds_t`: shutdown, slowdown, of the memory, of the card.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperatureThreshold(device: Handle, kind: u32, degrees: Place<u32>) -> i32 {
    number("nvmlDeviceGetTemperatureThreshold", device, degrees, |_, _| match kind {
        0 => Ok(TEMPERATURE[2]),
        1 => Ok(TEMPERATURE[1]),
        2 => Ok(95),
        3 => Ok(85),
        4..8 => Err(Code::NOT_SUPPORTED),
        _ => Err(Code::INVALID_ARGUMENT),
    })
}

/// A card that is in MIG mode does not tell (nvml.h); another works when somebody has a context on it.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(device: Handle, to: Place<Utilization>) -> i32 {
    call("nvmlDeviceGetUtilizationRates", |library| {
        let now = library.now_at(device.target()?.card())?;
        if now.held.settings.mig || matches!(device.target()?, Target::Mig(..)) {
            return Err(Code::NOT_SUPPORTED);
        }
        let memory = now.held.used * 100 / now.held.card.memory.max(1);
        to.give(Utilization { gpu: if works(&now.held) { 100 } else { 0 }, memory: memory as u32 })
    })
}

/// Per cent, and the microseconds over which they were counted.
fn idle_engine(name: &str, device: Handle, load: Place<u32>, period: Place<u32>) -> i32 {
    call(name, |library| {
        let now = library.now(device)?;
        if now.held.settings.mig {
            return Err(Code::NOT_SUPPORTED);
        }
        load.exists().and(period.exists())?;
        load.give(0).and(period.give(200_000))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEncoderUtilization(device: Handle, load: Place<u32>, period: Place<u32>) -> i32 {
    idle_engine("nvmlDeviceGetEncoderUtilization", device, load, period)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDecoderUtilization(device: Handle, load: Place<u32>, period: Place<u32>) -> i32 {
    idle_engine("nvmlDeviceGetDecoderUtilization", device, load, period)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetJpgUtilization(device: Handle, load: Place<u32>, period: Place<u32>) -> i32 {
    idle_engine("nvmlDeviceGetJpgUtilization", device, load, period)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetOfaUtilization(device: Handle, load: Place<u32>, period: Place<u32>) -> i32 {
    idle_engine("nvmlDeviceGetOfaUtilization", device, load, period)
}

/// The card's, or a MIG device's: no error was ever seen.
fn no_errors<T>(name: &str, device: Handle, kinds: [u32; 2], to: Place<T>, none: T) -> i32 {
    call(name, |library| {
        library.at(device.target()?.card())?;
        if kinds.into_iter().any(|kind| kind > 1) { Err(Code::INVALID_ARGUMENT) } else { to.give(none) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEccErrors(device: Handle, error: u32, counter: u32, count: Place<u64>) -> i32 {
    no_errors("nvmlDeviceGetTotalEccErrors", device, [error, counter], count, 0)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDetailedEccErrors(device: Handle, error: u32, counter: u32, to: Place<EccCounts>) -> i32 {
    no_errors("nvmlDeviceGetDetailedEccErrors", device, [error, counter], to, EccCounts::default())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryErrorCounter(
    device: Handle,
    error: u32,
    counter: u32,
    _location: u32,
    count: Place<u64>,
) -> i32 {
    no_errors("nvmlDeviceGetMemoryErrorCounter", device, [error, counter], count, 0)
}

/// Rows of memory that were replaced: corrected, uncorrected, pending, failed.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetRemappedRows(
    device: Handle,
    corrected: Place<u32>,
    uncorrected: Place<u32>,
    pending: Place<u32>,
    failed: Place<u32>,
) -> i32 {
    call("nvmlDeviceGetRemappedRows", |library| {
        library.card(device)?;
        [corrected, uncorrected, pending, failed].into_iter().try_for_each(|place| place.give(0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::struct_version;

    #[test]
    fn a_versioned_struct_has_the_version_that_the_bindings_give() {
        // nvmlTemperature_v1 of pynvml.py
        assert_eq!(struct_version::<Temperature>(1), 0x0100_000c);
    }
}
