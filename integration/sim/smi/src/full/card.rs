//! What is told of a card, in the order of driver 580.

use super::fact::{Fact, group, hexadecimal, plain, value, with};
use super::{mig_devices, processes};
use crate::device::Device;
use crate::fields::{compute_mode, enabled};
use crate::nvml::ask;
use crate::outcome::Code;
use crate::sensors::{Clock, Engine, Errors, Location, watts};

/// Everything.
pub fn facts(device: Device<'_>) -> Result<Vec<Fact>, Code> {
    let mut facts = modes(device);
    facts.push(group("", "mig_devices", mig_devices::facts(device)?));
    facts.extend(identity(device)?);
    facts.push(with("Fan Speed", "fan_speed", device.fan(), " %"));
    facts.push(value("Performance State", "performance_state", device.performance()));
    facts.push(clock_reasons(device));
    facts.extend(memory(device));
    facts.push(value("Compute Mode", "compute_mode", device.compute_mode().map(compute_mode)));
    facts.push(utilization(device));
    facts.push(pair("ECC Mode", "ecc_mode", "current_ecc", "pending_ecc", device.ecc()));
    facts.push(errors(device));
    facts.push(remapped_rows(device));
    facts.push(group("Temperature", "temperature", [with("GPU Current Temp", "gpu_temp", device.temperature(), " C")]));
    facts.push(power(device));
    facts.push(clocks("Clocks", "clocks", |clock| device.clock(clock)));
    facts.push(clocks("Max Clocks", "max_clocks", |clock| device.highest_clock(clock)));
    facts.push(group("Processes", "processes", processes::facts(device)?));
    Ok(facts)
}

/// A mode now and after the next reset.
fn pair(
    title: &'static str,
    element: &'static str,
    current: &'static str,
    pending: &'static str,
    modes: Result<(bool, bool), Code>,
) -> Fact {
    let now = value("Current", current, modes.map(|(now, _)| enabled(now)));
    group(title, element, [now, value("Pending", pending, modes.map(|(_, later)| enabled(later)))])
}

fn modes(device: Device<'_>) -> Vec<Fact> {
    let Device { nvml, handle } = device;
    let active = ask!(nvml, nvmlDeviceGetDisplayActive(handle) -> u32);
    let brand = ask!(nvml, nvmlDeviceGetBrand(handle) -> u32);
    let architecture = ask!(nvml, nvmlDeviceGetArchitecture(handle) -> u32);
    vec![
        value("Product Name", "product_name", device.name()),
        value("Product Brand", "product_brand", brand.map(brand_name)),
        value("Product Architecture", "product_architecture", architecture.map(architecture_name)),
        plain("Display Mode", "display_mode", "Requested functionality has been deprecated"),
        plain("Display Attached", "display_attached", "No"),
        value("Display Active", "display_active", active.map(|active| enabled(active != 0))),
        value("Persistence Mode", "persistence_mode", device.persistence().map(enabled)),
        pair("MIG Mode", "mig_mode", "current_mig", "pending_mig", device.mig_mode()),
    ]
}

/// As nvidia-smi names `nvmlBrandType_t`, of those that data centers have.
fn brand_name(brand: u32) -> &'static str {
    match brand {
        9 => "NVIDIA Virtual Compute Server",
        14 => "NVIDIA",
        _ => "Unknown",
    }
}

/// As nvidia-smi names `nvmlDeviceArchitecture_t`.
fn architecture_name(architecture: u32) -> &'static str {
    match architecture {
        7 => "Ampere",
        8 => "Ada Lovelace",
        9 => "Hopper",
        10 => "Blackwell",
        _ => "Unknown",
    }
}

fn identity(device: Device<'_>) -> Result<[Fact; 10], Code> {
    let Device { nvml, handle } = device;
    let accounting = ask!(nvml, nvmlDeviceGetAccountingMode(handle) -> u32);
    let minor = ask!(nvml, nvmlDeviceGetMinorNumber(handle) -> u32);
    let several = ask!(nvml, nvmlDeviceGetMultiGpuBoard(handle) -> u32);
    let board = ask!(nvml, nvmlDeviceGetBoardId(handle) -> u32);
    let mode = ask!(nvml, nvmlDeviceGetVirtualizationMode(handle) -> u32);
    let word = |mode| ["None", "Pass-Through", "VGPU", "Host VGPU"].get(mode as usize).copied().unwrap_or("N/A");
    Ok([
        value("Accounting Mode", "accounting_mode", accounting.map(|mode| enabled(mode != 0))),
        value("Serial Number", "serial", device.serial()),
        value("GPU UUID", "uuid", device.uuid()),
        value("Minor Number", "minor_number", minor),
        value("VBIOS Version", "vbios_version", device.vbios()),
        value("MultiGPU Board", "multigpu_board", several.map(|several| yes(several != 0))),
        value("Board ID", "board_id", board.map(|board| format!("0x{board:x}"))),
        value("Board Part Number", "board_part_number", device.part()),
        group(
            "GPU Virtualization Mode",
            "gpu_virtualization_mode",
            [value("Virtualization Mode", "virtualization_mode", mode.map(word))],
        ),
        pci(device)?,
    ])
}

fn yes(is: bool) -> &'static str {
    if is { "Yes" } else { "No" }
}

fn pci(device: Device<'_>) -> Result<Fact, Code> {
    let pci = device.pci()?;
    let lanes = |width: Result<u32, Code>| width.map(|width| format!("{width}x"));
    let generations = [
        value("Max", "max_link_gen", device.highest_link_generation()),
        value("Current", "current_link_gen", device.link_generation()),
    ];
    let widths = [
        value("Max", "max_link_width", lanes(device.highest_link_width())),
        value("Current", "current_link_width", lanes(device.link_width())),
    ];
    let link = [group("PCIe Generation", "pcie_gen", generations), group("Link Width", "link_widths", widths)];
    let facts = [
        hexadecimal("Bus", "pci_bus", format!("{:02X}", pci.bus)),
        hexadecimal("Device", "pci_device", format!("{:02X}", pci.device)),
        hexadecimal("Domain", "pci_domain", format!("{:04X}", pci.domain)),
        hexadecimal("Device Id", "pci_device_id", format!("{:08X}", pci.pciDeviceId)),
        plain("Bus Id", "pci_bus_id", device.bus_id()?),
        hexadecimal("Sub System Id", "pci_sub_system_id", format!("{:08X}", pci.pciSubSystemId)),
        group("GPU Link Info", "pci_gpu_link_info", link),
    ];
    Ok(group("PCI", "pci", facts))
}

/// `nvmlClocksEventReason…` of nvml.h.
fn clock_reasons(device: Device<'_>) -> Fact {
    let reasons = device.slowed_by();
    let reason = |title, element, bit: u64| {
        value(title, element, reasons.map(|reasons| if reasons & bit == 0 { "Not Active" } else { "Active" }))
    };
    let hardware = vec![
        reason("HW Thermal Slowdown", "clocks_event_reason_hw_thermal_slowdown", 0x40),
        reason("HW Power Brake Slowdown", "clocks_event_reason_hw_power_brake_slowdown", 0x80),
    ];
    let facts = [
        reason("Idle", "clocks_event_reason_gpu_idle", 0x1),
        reason("Applications Clocks Setting", "clocks_event_reason_applications_clocks_setting", 0x2),
        reason("SW Power Cap", "clocks_event_reason_sw_power_cap", 0x4),
        reason("HW Slowdown", "clocks_event_reason_hw_slowdown", 0x8),
        Fact::Beneath(hardware),
        reason("Sync Boost", "clocks_event_reason_sync_boost", 0x10),
        reason("SW Thermal Slowdown", "clocks_event_reason_sw_thermal_slowdown", 0x20),
        reason("Display Clock Setting", "clocks_event_reason_display_clocks_setting", 0x100),
    ];
    group("Clocks Event Reasons", "clocks_event_reasons", facts)
}

/// Of a card, or of a MIG device.
pub fn memory(device: Device<'_>) -> [Fact; 2] {
    let (held, bar1) = (device.memory(), device.bar1());
    let held = [
        with("Total", "total", held.map(|memory| memory.total), " MiB"),
        with("Reserved", "reserved", held.map(|memory| memory.reserved), " MiB"),
        with("Used", "used", held.map(|memory| memory.used), " MiB"),
        with("Free", "free", held.map(|memory| memory.free), " MiB"),
    ];
    let bar1 = [
        with("Total", "total", bar1.map(|bar1| bar1.bar1Total >> 20), " MiB"),
        with("Used", "used", bar1.map(|bar1| bar1.bar1Used >> 20), " MiB"),
        with("Free", "free", bar1.map(|bar1| bar1.bar1Free >> 20), " MiB"),
    ];
    [group("FB Memory Usage", "fb_memory_usage", held), group("BAR1 Memory Usage", "bar1_memory_usage", bar1)]
}

fn utilization(device: Device<'_>) -> Fact {
    let engine = |title, element, engine| with(title, element, device.engine_load(engine), " %");
    let facts = [
        with("GPU", "gpu_util", device.load(), " %"),
        with("Memory", "memory_util", device.memory_load(), " %"),
        engine("Encoder", "encoder_util", Engine::Encoder),
        engine("Decoder", "decoder_util", Engine::Decoder),
        engine("JPEG", "jpeg_util", Engine::Jpeg),
        engine("OFA", "ofa_util", Engine::OpticalFlow),
    ];
    group("Utilization", "utilization", facts)
}

fn errors(device: Device<'_>) -> Fact {
    let counters = |ever| {
        [
            ("SRAM Correctable", "sram_correctable", Location::Sram, Errors::Corrected),
            ("DRAM Correctable", "dram_correctable", Location::Dram, Errors::Corrected),
            ("DRAM Uncorrectable", "dram_uncorrectable", Location::Dram, Errors::Uncorrected),
        ]
        .map(|(title, element, location, kind)| value(title, element, device.errors_of(location, kind, ever)))
    };
    let counted = [group("Volatile", "volatile", counters(false)), group("Aggregate", "aggregate", counters(true))];
    group("ECC Errors", "ecc_errors", counted)
}

fn remapped_rows(device: Device<'_>) -> Fact {
    let (title, element) = ("Remapped Rows", "remapped_rows");
    let rows = match device.remapped_rows() {
        Ok(rows) => rows,
        Err(code) => return value(title, element, Err::<u32, _>(code)),
    };
    let facts = [
        plain("Correctable Error", "remapped_row_corr", rows.corrected),
        plain("Uncorrectable Error", "remapped_row_unc", rows.uncorrected),
        plain("Pending", "remapped_row_pending", yes(rows.pending)),
        plain("Remapping Failure Occurred", "remapped_row_failure", yes(rows.failed)),
    ];
    group(title, element, facts)
}

fn power(device: Device<'_>) -> Fact {
    let power = |title, element, milliwatts: Result<u32, Code>| with(title, element, milliwatts.map(watts), " W");
    let limits = device.power_limits();
    let facts = [
        power("Instantaneous Power Draw", "instant_power_draw", device.power_draw()),
        power("Current Power Limit", "current_power_limit", device.enforced_limit()),
        power("Requested Power Limit", "requested_power_limit", device.power_limit()),
        power("Default Power Limit", "default_power_limit", device.default_limit()),
        power("Min Power Limit", "min_power_limit", limits.map(|(least, _)| least)),
        power("Max Power Limit", "max_power_limit", limits.map(|(_, most)| most)),
    ];
    group("GPU Power Readings", "gpu_power_readings", facts)
}

fn clocks(title: &'static str, element: &'static str, of: impl Fn(Clock) -> Result<u32, Code>) -> Fact {
    let clock = |title, element, clock| with(title, element, of(clock), " MHz");
    let facts = [
        clock("Graphics", "graphics_clock", Clock::Graphics),
        clock("SM", "sm_clock", Clock::Multiprocessors),
        clock("Memory", "mem_clock", Clock::Memory),
        clock("Video", "video_clock", Clock::Video),
    ];
    group(title, element, facts)
}
