//! What is told of who uses a card.

use nvml_wrapper_sys::bindings::nvmlProcessInfo_t;

use super::fact::{Fact, group, plain};
use crate::device::Device;
use crate::outcome::Code;

/// A group for each.
pub fn facts(device: Device<'_>) -> Result<Vec<Fact>, Code> {
    Ok(device.known_processes()?.iter().map(|process| group("", "process_info", of(device, process))).collect())
}

fn of(device: Device<'_>, process: &nvmlProcessInfo_t) -> [Fact; 4] {
    let instance = |id: u32| if id == u32::MAX { "N/A".to_owned() } else { id.to_string() };
    let about = vec![
        plain("Type", "type", "C"),
        plain("Name", "process_name", device.nvml.process(process.pid)),
        plain("Used GPU Memory", "used_memory", format!("{} MiB", process.usedGpuMemory >> 20)),
    ];
    [
        plain("GPU instance ID", "gpu_instance_id", instance(process.gpuInstanceId)),
        plain("Compute instance ID", "compute_instance_id", instance(process.computeInstanceId)),
        plain("Process ID", "pid", process.pid),
        Fact::Beneath(about),
    ]
}
