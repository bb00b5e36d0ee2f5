//! `nvidia-smi -q`: the main fields.

use nvml_wrapper_sys::bindings::nvmlBAR1Memory_t;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::device::{Device, Memory};
use crate::fields;
use crate::nvml::{Nvml, ask};
use crate::outcome::{Code, Failure, Outcome};

/// Everything of each card.
pub fn print(nvml: &Nvml, devices: &[Device<'_>]) -> Outcome {
    let format = format_description!(
        "[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] [year]"
    );
    println!("\n==============NVSMI LOG==============\n");
    line(0, "Timestamp", OffsetDateTime::now_utc().format(&format).unwrap_or_default());
    line(0, "Driver Version", nvml.driver());
    line(0, "CUDA Version", nvml.cuda());
    println!();
    line(0, "Attached GPUs", nvml.cards().map_or(0, |cards| cards.len()).to_string());
    for device in devices {
        card(*device).map_err(|code| Failure::of(code, nvml.text_of(code)))?;
    }
    Ok(())
}

fn line(depth: usize, name: &str, value: impl AsRef<str>) {
    let indent = depth * 4;
    println!("{:indent$}{name:<width$} : {}", "", value.as_ref(), width = 50 - indent);
}

fn title(depth: usize, name: &str) {
    println!("{:indent$}{name}", "", indent = depth * 4);
}

fn value(depth: usize, name: &str, value: Result<impl ToString, Code>, unit: &str) {
    let text = value.map_or_else(|_| "N/A".to_owned(), |value| format!("{}{unit}", value.to_string()));
    line(depth, name, text);
}

/// A field as `--query-gpu` has it.
fn field(depth: usize, name: &str, device: Device<'_>, field: &str) {
    let found = fields::of_card(device, 0, field).unwrap_or(Err(0));
    let text = found.map(|(value, unit)| if unit.is_empty() { value } else { format!("{value} {unit}") });
    value(depth, name, text, "");
}

fn card(device: Device<'_>) -> Result<(), Code> {
    let pci = device.pci()?;
    println!("GPU {}", device.bus_id()?);
    field(1, "Product Name", device, "name");
    value(1, "Persistence Mode", device.persistence().map(fields::enabled), "");
    title(1, "MIG Mode");
    field(2, "Current", device, "mig.mode.current");
    field(2, "Pending", device, "mig.mode.pending");
    mig_devices(device)?;
    field(1, "Serial Number", device, "serial");
    value(1, "GPU UUID", device.uuid(), "");
    value(1, "Minor Number", ask!(device.nvml, nvmlDeviceGetMinorNumber(device.handle) -> u32), "");
    value(1, "VBIOS Version", device.vbios(), "");
    value(1, "GPU Part Number", device.part(), "");
    title(1, "GPU Virtualization Mode");
    let mode = ask!(device.nvml, nvmlDeviceGetVirtualizationMode(device.handle) -> u32);
    let word = |mode| ["None", "Pass-Through", "VGPU", "Host VGPU"].get(mode as usize).copied().unwrap_or("N/A");
    value(2, "Virtualization Mode", mode.map(word), "");
    title(1, "PCI");
    line(2, "Bus", format!("0x{:02X}", pci.bus));
    line(2, "Device", format!("0x{:02X}", pci.device));
    line(2, "Domain", format!("0x{:04X}", pci.domain));
    line(2, "Device Id", format!("0x{:08X}", pci.pciDeviceId));
    line(2, "Bus Id", device.bus_id()?);
    line(2, "Sub System Id", format!("0x{:08X}", pci.pciSubSystemId));
    field(1, "Fan Speed", device, "fan.speed");
    field(1, "Performance State", device, "pstate");
    memory(1, device);
    value(1, "Compute Mode", device.compute_mode().map(fields::compute_mode), "");
    title(1, "Utilization");
    field(2, "GPU", device, "utilization.gpu");
    field(2, "Memory", device, "utilization.memory");
    title(1, "ECC Mode");
    field(2, "Current", device, "ecc.mode.current");
    field(2, "Pending", device, "ecc.mode.pending");
    title(1, "Temperature");
    value(2, "GPU Current Temp", ask!(device.nvml, nvmlDeviceGetTemperature(device.handle, 0) -> u32), " C");
    title(1, "GPU Power Readings");
    field(2, "Instantaneous Power Draw", device, "power.draw");
    field(2, "Current Power Limit", device, "power.limit");
    title(1, "Max Clocks");
    field(2, "Graphics", device, "clocks.max.gr");
    field(2, "SM", device, "clocks.max.sm");
    field(2, "Memory", device, "clocks.max.mem");
    processes(device)
}

fn memory(depth: usize, device: Device<'_>) {
    title(depth, "FB Memory Usage");
    let found = device.memory();
    let part = |of: fn(Memory) -> u64| found.map(of);
    value(depth + 1, "Total", part(|memory| memory.total), " MiB");
    value(depth + 1, "Reserved", part(|memory| memory.reserved), " MiB");
    value(depth + 1, "Used", part(|memory| memory.used), " MiB");
    value(depth + 1, "Free", part(|memory| memory.free), " MiB");
    title(depth, "BAR1 Memory Usage");
    let bar1 = ask!(device.nvml, nvmlDeviceGetBAR1MemoryInfo(device.handle) -> nvmlBAR1Memory_t);
    value(depth + 1, "Total", bar1.map(|bar1| bar1.bar1Total >> 20), " MiB");
    value(depth + 1, "Used", bar1.map(|bar1| bar1.bar1Used >> 20), " MiB");
    value(depth + 1, "Free", bar1.map(|bar1| bar1.bar1Free >> 20), " MiB");
}

fn mig_devices(device: Device<'_>) -> Result<(), Code> {
    let devices = device.mig_devices();
    if devices.is_empty() {
        return Ok(());
    }
    title(1, "MIG Device");
    for mig in devices {
        let ((gpu, compute), has) = (mig.instance()?, mig.attributes()?);
        value(2, "Index", mig.index(), "");
        line(2, "GPU Instance ID", gpu.to_string());
        line(2, "Compute Instance ID", compute.to_string());
        title(2, "Device Attributes");
        title(3, "Shared");
        for (name, count) in [
            ("Multiprocessor count", has.multiprocessorCount),
            ("Copy Engine count", has.sharedCopyEngineCount),
            ("Encoder count", has.sharedEncoderCount),
            ("Decoder count", has.sharedDecoderCount),
            ("OFA count", has.sharedOfaCount),
            ("JPG count", has.sharedJpegCount),
        ] {
            line(4, name, count.to_string());
        }
        memory(2, mig);
    }
    Ok(())
}

fn processes(device: Device<'_>) -> Result<(), Code> {
    let list = match device.processes() {
        Err(code) if fields::is_absence(code) => Vec::new(),
        answer => answer?,
    };
    if list.is_empty() {
        line(1, "Processes", "None");
        return Ok(());
    }
    title(1, "Processes");
    for process in list {
        let instance = |id: u32| if id == u32::MAX { "N/A".to_owned() } else { id.to_string() };
        line(2, "GPU instance ID", instance(process.gpuInstanceId));
        line(2, "Compute instance ID", instance(process.computeInstanceId));
        line(2, "Process ID", process.pid.to_string());
        line(3, "Type", "C");
        line(3, "Name", device.nvml.process(process.pid));
        line(3, "Used GPU Memory", format!("{} MiB", process.usedGpuMemory >> 20));
    }
    Ok(())
}
