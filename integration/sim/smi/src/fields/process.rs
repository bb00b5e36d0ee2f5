//! The fields of a process.

use nvml_wrapper_sys::bindings::nvmlProcessInfo_t;

use super::{Field, Value, field, text};
use crate::device::Device;

type OfProcess = fn(Device<'_>, &nvmlProcessInfo_t) -> Value;

/// They and their names are those of `nvidia-smi --help-query-compute-apps`.
pub static PROCESS: [Field<OfProcess>; 7] = [
    field(&["gpu_name"], "", "Product name of its card.", |device, _| device.name()),
    field(&["gpu_bus_id"], "", "PCI address of its card.", |device, _| device.bus_id()),
    field(&["gpu_serial"], "", "Serial number of its card.", |device, _| device.serial()),
    field(&["gpu_uuid"], "", "UUID of its card.", |device, _| device.uuid()),
    field(&["pid"], "", "Its number.", |_, process| text(Ok(process.pid))),
    field(&["process_name", "name"], "", "Its program.", |device, process| Ok(device.nvml.process(process.pid))),
    field(&["used_gpu_memory", "used_memory"], "MiB", "Memory that it holds on the card.", |_, process| {
        text(Ok(process.usedGpuMemory >> 20))
    }),
];
