//! The fields that `--query-gpu` and `--query-compute-apps` know (`nvidia-smi --help-query-gpu`).

use nvml_wrapper_sys::bindings::{nvmlProcessInfo_t, nvmlUtilization_t};

use crate::device::{Device, Memory};
use crate::nvml::ask;
use crate::outcome::{Code, INVALID_ARGUMENT, NOT_SUPPORTED};

/// A value and its unit, or why there is none.
type Value = Result<(String, &'static str), Code>;

/// What is printed for a value that there is not.
pub fn absent(code: Code) -> &'static str {
    if code == 4 { "[Insufficient Permissions]" } else { "[N/A]" }
}

fn plain(value: Result<impl ToString, Code>) -> Value {
    value.map(|value| (value.to_string(), ""))
}

fn with(value: Result<impl ToString, Code>, unit: &'static str) -> Value {
    value.map(|value| (value.to_string(), unit))
}

fn memory(device: Device<'_>, of: impl FnOnce(Memory) -> u64) -> Value {
    with(device.memory().map(of), "MiB")
}

/// `Enabled` or `Disabled`.
pub fn enabled(on: bool) -> &'static str {
    if on { "Enabled" } else { "Disabled" }
}

/// As nvidia-smi names `nvmlComputeMode_t`.
pub fn compute_mode(mode: u32) -> &'static str {
    match mode {
        0 => "Default",
        2 => "Prohibited",
        3 => "Exclusive_Process",
        _ => "Unknown",
    }
}

fn watts(milliwatts: u32) -> String {
    format!("{}.{:02}", milliwatts / 1000, milliwatts % 1000 / 10)
}

/// `NVML_CLOCK_GRAPHICS`, `…_SM`, `…_MEM`, `…_VIDEO`.
const CLOCKS: [(&str, u32); 4] = [("gr", 0), ("sm", 1), ("mem", 2), ("video", 3)];

fn clock(device: Device<'_>, field: &str) -> Option<Value> {
    let name = field.strip_prefix("clocks.").map(|name| name.strip_prefix("current.").unwrap_or(name))?;
    let (name, most) = name.strip_prefix("max.").map_or((name, false), |name| (name, true));
    let name = match name {
        "graphics" => "gr",
        "memory" => "mem",
        name => name,
    };
    let (_, kind) = CLOCKS.into_iter().find(|(known, _)| *known == name)?;
    let now = || ask!(device.nvml, nvmlDeviceGetClockInfo(device.handle, kind) -> u32);
    let highest = || ask!(device.nvml, nvmlDeviceGetMaxClockInfo(device.handle, kind) -> u32);
    Some(with(if most { highest() } else { now() }, "MHz"))
}

fn utilization(device: Device<'_>, of: impl FnOnce(nvmlUtilization_t) -> u32) -> Value {
    with(ask!(device.nvml, nvmlDeviceGetUtilizationRates(device.handle) -> nvmlUtilization_t).map(of), "%")
}

/// The value of a card's field; nothing for a name that is none.
pub fn of_card(device: Device<'_>, count: usize, field: &str) -> Option<Value> {
    let (nvml, handle) = (device.nvml, device.handle);
    let value = match field {
        "index" => plain(device.index()),
        "count" => plain(Ok::<_, Code>(count)),
        "name" | "gpu_name" => plain(device.name()),
        "uuid" | "gpu_uuid" => plain(device.uuid()),
        "serial" | "gpu_serial" => plain(device.serial()),
        "driver_version" => plain(Ok::<_, Code>(nvml.driver())),
        "vbios_version" => plain(device.vbios()),
        "pci.bus_id" | "gpu_bus_id" => plain(device.bus_id()),
        "pci.domain" => plain(device.pci().map(|pci| format!("0x{:04X}", pci.domain))),
        "pci.bus" => plain(device.pci().map(|pci| format!("0x{:02X}", pci.bus))),
        "pci.device" => plain(device.pci().map(|pci| format!("0x{:02X}", pci.device))),
        "pci.device_id" => plain(device.pci().map(|pci| format!("0x{:08X}", pci.pciDeviceId))),
        "pci.sub_device_id" => plain(device.pci().map(|pci| format!("0x{:08X}", pci.pciSubSystemId))),
        "memory.total" => memory(device, |memory| memory.total),
        "memory.reserved" => memory(device, |memory| memory.reserved),
        "memory.used" => memory(device, |memory| memory.used),
        "memory.free" => memory(device, |memory| memory.free),
        "mig.mode.current" => plain(device.mig_mode().map(|(current, _)| enabled(current))),
        "mig.mode.pending" => plain(device.mig_mode().map(|(_, pending)| enabled(pending))),
        "compute_mode" => plain(device.compute_mode().map(compute_mode)),
        "compute_cap" => plain(device.capability().map(|(major, minor)| format!("{major}.{minor}"))),
        "persistence_mode" => plain(device.persistence().map(enabled)),
        "display_mode" | "display_active" => plain(Ok::<_, Code>("Disabled")),
        "utilization.gpu" => utilization(device, |rates| rates.gpu),
        "utilization.memory" => utilization(device, |rates| rates.memory),
        "temperature.gpu" => plain(ask!(nvml, nvmlDeviceGetTemperature(handle, 0) -> u32)),
        "power.draw" => with(ask!(nvml, nvmlDeviceGetPowerUsage(handle) -> u32).map(watts), "W"),
        "power.limit" => with(ask!(nvml, nvmlDeviceGetPowerManagementLimit(handle) -> u32).map(watts), "W"),
        "power.max_limit" => with(ask!(nvml, nvmlDeviceGetPowerManagementDefaultLimit(handle) -> u32).map(watts), "W"),
        "fan.speed" => with(ask!(nvml, nvmlDeviceGetFanSpeed(handle) -> u32), "%"),
        "pstate" => plain(ask!(nvml, nvmlDeviceGetPerformanceState(handle) -> u32).map(|state| format!("P{state}"))),
        "pcie.link.gen.current" => plain(ask!(nvml, nvmlDeviceGetCurrPcieLinkGeneration(handle) -> u32)),
        "pcie.link.gen.max" => plain(ask!(nvml, nvmlDeviceGetMaxPcieLinkGeneration(handle) -> u32)),
        "pcie.link.width.current" => plain(ask!(nvml, nvmlDeviceGetCurrPcieLinkWidth(handle) -> u32)),
        "pcie.link.width.max" => plain(ask!(nvml, nvmlDeviceGetMaxPcieLinkWidth(handle) -> u32)),
        "ecc.mode.current" | "ecc.mode.pending" => plain(device.pci().map(|_| enabled(true))),
        "ecc.errors.uncorrected.volatile.total" => plain(ask!(nvml, nvmlDeviceGetTotalEccErrors(handle, 1, 0) -> u64)),
        "ecc.errors.corrected.volatile.total" => plain(ask!(nvml, nvmlDeviceGetTotalEccErrors(handle, 0, 0) -> u64)),
        other => return clock(device, other),
    };
    Some(value)
}

/// Whether it is the name of a field of a process.
pub fn is_of_process(field: &str) -> bool {
    matches!(field, "gpu_name" | "gpu_bus_id" | "gpu_serial" | "gpu_uuid" | "pid" | "process_name" | "name")
        || matches!(field, "used_gpu_memory" | "used_memory")
}

/// The value of a process's field.
pub fn of_process(device: Device<'_>, process: &nvmlProcessInfo_t, field: &str) -> Value {
    match field {
        "pid" => plain(Ok::<_, Code>(process.pid)),
        "process_name" | "name" => plain(Ok::<_, Code>(device.nvml.process(process.pid))),
        "used_gpu_memory" | "used_memory" => with(Ok(process.usedGpuMemory >> 20), "MiB"),
        card => of_card(device, 0, card).unwrap_or(Err(INVALID_ARGUMENT)),
    }
}

/// The unit of a field, for the head of its column.
pub fn unit(field: &str) -> &'static str {
    match field {
        "memory.total" | "memory.reserved" | "memory.used" | "memory.free" | "used_gpu_memory" | "used_memory" => "MiB",
        "utilization.gpu" | "utilization.memory" | "fan.speed" => "%",
        "power.draw" | "power.limit" | "power.max_limit" => "W",
        field if field.starts_with("clocks.") => "MHz",
        _ => "",
    }
}

/// Whether there is no such thing on the card, which is no failure.
pub fn is_absence(code: Code) -> bool {
    matches!(code, NOT_SUPPORTED | 4)
}
