//! The way from the processor to the card, and from card to card.

use baton_sim_model::Model;

use crate::codes::{Code, Outcome};
use crate::handle::Handle;
use crate::library::call;
use crate::pointer::Place;

/// Generation of PCI Express: 4 of Ampere, 5 of what came after it (NVIDIA's data sheets).
fn generation(model: &Model) -> u32 {
    if model.architecture < 9 { 4 } else { 5 }
}

/// Lanes.
const WIDTH: u32 = 16;

fn number(name: &str, device: Handle, to: Place<u32>, of: impl FnOnce(&Model) -> u32) -> i32 {
    call(name, |library| {
        let now = library.now(device)?;
        if now.held.card.guest { Err(Code::NOT_SUPPORTED) } else { to.give(of(now.model()?)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxPcieLinkGeneration(device: Handle, to: Place<u32>) -> i32 {
    number("nvmlDeviceGetMaxPcieLinkGeneration", device, to, generation)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuMaxPcieLinkGeneration(device: Handle, to: Place<u32>) -> i32 {
    number("nvmlDeviceGetGpuMaxPcieLinkGeneration", device, to, generation)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrPcieLinkGeneration(device: Handle, to: Place<u32>) -> i32 {
    number("nvmlDeviceGetCurrPcieLinkGeneration", device, to, generation)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxPcieLinkWidth(device: Handle, to: Place<u32>) -> i32 {
    number("nvmlDeviceGetMaxPcieLinkWidth", device, to, |_| WIDTH)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrPcieLinkWidth(device: Handle, to: Place<u32>) -> i32 {
    number("nvmlDeviceGetCurrPcieLinkWidth", device, to, |_| WIDTH)
}

/// `NVML_PCIE_LINK_MAX_SPEED_16000MBPS` of generation 4, `…_32000MBPS` of 5: the generation itself.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieLinkMaxSpeed(device: Handle, to: Place<u32>) -> i32 {
    number("nvmlDeviceGetPcieLinkMaxSpeed", device, to, generation)
}

/// Megabits per second and lane.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieSpeed(device: Handle, to: Place<u32>) -> i32 {
    number("nvmlDeviceGetPcieSpeed", device, to, |model| 1000 << generation(model))
}

/// KB/s, of transmissions and receptions.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieThroughput(device: Handle, counter: u32, to: Place<u32>) -> i32 {
    if counter > 1 {
        return call("nvmlDeviceGetPcieThroughput", |_| Err(Code::INVALID_ARGUMENT));
    }
    number("nvmlDeviceGetPcieThroughput", device, to, |_| 0)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieReplayCounter(device: Handle, to: Place<u32>) -> i32 {
    number("nvmlDeviceGetPcieReplayCounter", device, to, |_| 0)
}

/// `NVML_BUS_TYPE_PCIE`.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetBusType(device: Handle, to: Place<u32>) -> i32 {
    call("nvmlDeviceGetBusType", |library| -> Outcome { library.card(device).and_then(|_| to.give(2)) })
}
