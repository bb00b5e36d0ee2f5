//! The fields of a card.

use super::{Field, Value, compute_mode, enabled, field, text};
use crate::device::Device;
use crate::sensors::{Clock, Engine, Errors, watts};

type OfCard = fn(Device<'_>) -> Value;

/// They and their names are those of `nvidia-smi --help-query-gpu` of driver 580, as far as they go.
pub static CARD: [Field<OfCard>; 52] = [
    field(&["driver_version"], "", "Version of the driver.", |device| Ok(device.nvml.driver())),
    field(&["count"], "", "How many cards this machine has.", |device| text(device.nvml.cards().map(|all| all.len()))),
    field(&["name", "gpu_name"], "", "Product name.", |device| device.name()),
    field(&["serial", "gpu_serial"], "", "Serial number of the board.", |device| device.serial()),
    field(&["uuid", "gpu_uuid"], "", "UUID of the card, which never changes.", |device| device.uuid()),
    field(&["pci.bus_id", "gpu_bus_id"], "", "PCI address as domain:bus:device.function, in hexadecimal.", |device| {
        device.bus_id()
    }),
    field(&["pci.domain"], "", "PCI domain, in hexadecimal.", |device| {
        device.pci().map(|pci| format!("0x{:04X}", pci.domain))
    }),
    field(&["pci.bus"], "", "PCI bus, in hexadecimal.", |device| device.pci().map(|pci| format!("0x{:02X}", pci.bus))),
    field(&["pci.device"], "", "PCI device, in hexadecimal.", |device| {
        device.pci().map(|pci| format!("0x{:02X}", pci.device))
    }),
    field(&["pci.device_id"], "", "PCI device and vendor id, in hexadecimal.", |device| {
        device.pci().map(|pci| format!("0x{:08X}", pci.pciDeviceId))
    }),
    field(&["pci.sub_device_id"], "", "PCI subsystem id, in hexadecimal.", |device| {
        device.pci().map(|pci| format!("0x{:08X}", pci.pciSubSystemId))
    }),
    field(&["pcie.link.gen.current", "pcie.link.gen.gpucurrent"], "", "Generation of its PCIe link now.", |device| {
        text(device.link_generation())
    }),
    field(&["pcie.link.gen.max"], "", "Highest generation of its PCIe link here.", |device| {
        text(device.highest_link_generation())
    }),
    field(&["pcie.link.width.current"], "", "Lanes of its PCIe link now.", |device| text(device.link_width())),
    field(&["pcie.link.width.max"], "", "Most lanes of its PCIe link here.", |device| {
        text(device.highest_link_width())
    }),
    field(&["index"], "", "Number of the card, from 0.", |device| text(device.index())),
    field(&["display_mode"], "", "Whether a display is connected to it.", |_| text(Ok(enabled(false)))),
    field(&["display_active"], "", "Whether a display is in use on it.", |_| text(Ok(enabled(false)))),
    field(&["persistence_mode"], "", "Whether the driver stays loaded when nobody uses the card.", |device| {
        text(device.persistence().map(enabled))
    }),
    field(&["vbios_version"], "", "Version of its firmware.", |device| device.vbios()),
    field(&["fan.speed"], "%", "Speed its fan is to have.", |device| text(device.fan())),
    field(&["pstate"], "", "Performance state: P0 is the highest, P12 the lowest.", |device| device.performance()),
    field(&["memory.total"], "MiB", "All of its memory.", |device| text(device.memory().map(|memory| memory.total))),
    field(&["memory.reserved"], "MiB", "Memory that the driver keeps.", |device| {
        text(device.memory().map(|memory| memory.reserved))
    }),
    field(&["memory.used"], "MiB", "Memory that contexts hold.", |device| {
        text(device.memory().map(|memory| memory.used))
    }),
    field(&["memory.free"], "MiB", "Memory to be had.", |device| text(device.memory().map(|memory| memory.free))),
    field(&["compute_mode"], "", "Who may have contexts on it: Default, Exclusive_Process or Prohibited.", |device| {
        text(device.compute_mode().map(compute_mode))
    }),
    field(&["compute_cap"], "", "Its CUDA compute capability.", |device| {
        device.capability().map(|(major, minor)| format!("{major}.{minor}"))
    }),
    field(&["utilization.gpu"], "%", "Share of time in which a kernel ran.", |device| text(device.load())),
    field(&["utilization.memory"], "%", "Share of time in which its memory was read or written.", |device| {
        text(device.memory_load())
    }),
    field(&["utilization.encoder"], "%", "Share of time in which its encoder worked.", |device| {
        text(device.engine_load(Engine::Encoder))
    }),
    field(&["utilization.decoder"], "%", "Share of time in which its decoder worked.", |device| {
        text(device.engine_load(Engine::Decoder))
    }),
    field(&["ecc.mode.current"], "", "Whether its memory is checked.", |device| {
        text(device.ecc().map(|(current, _)| enabled(current)))
    }),
    field(&["ecc.mode.pending"], "", "Whether its memory will be checked after the next reset.", |device| {
        text(device.ecc().map(|(_, pending)| enabled(pending)))
    }),
    field(
        &["ecc.errors.corrected.volatile.total"],
        "",
        "Errors that were corrected since the driver was loaded.",
        |device| text(device.errors(Errors::Corrected)),
    ),
    field(&["ecc.errors.uncorrected.volatile.total"], "", "Errors that were not.", |device| {
        text(device.errors(Errors::Uncorrected))
    }),
    field(&["temperature.gpu"], "", "Its temperature, in degrees Celsius.", |device| text(device.temperature())),
    field(&["power.draw", "power.draw.instant"], "W", "What it draws.", |device| device.power_draw().map(watts)),
    field(&["power.limit"], "W", "The limit that was asked for.", |device| device.power_limit().map(watts)),
    field(&["enforced.power.limit"], "W", "The limit that holds.", |device| device.enforced_limit().map(watts)),
    field(&["power.default_limit"], "W", "Its limit after a start of the driver.", |device| {
        device.default_limit().map(watts)
    }),
    field(&["power.min_limit"], "W", "The lowest limit that can be asked for.", |device| {
        device.power_limits().map(|(least, _)| watts(least))
    }),
    field(&["power.max_limit"], "W", "The highest.", |device| device.power_limits().map(|(_, most)| watts(most))),
    field(&["clocks.current.graphics", "clocks.gr"], "MHz", "Its clock now.", |device| {
        text(device.clock(Clock::Graphics))
    }),
    field(&["clocks.current.sm", "clocks.sm"], "MHz", "That of its multiprocessors.", |device| {
        text(device.clock(Clock::Multiprocessors))
    }),
    field(&["clocks.current.memory", "clocks.mem"], "MHz", "That of its memory.", |device| {
        text(device.clock(Clock::Memory))
    }),
    field(&["clocks.current.video", "clocks.video"], "MHz", "That of its encoders and decoders.", |device| {
        text(device.clock(Clock::Video))
    }),
    field(&["clocks.max.graphics", "clocks.max.gr"], "MHz", "Its highest clock.", |device| {
        text(device.highest_clock(Clock::Graphics))
    }),
    field(&["clocks.max.sm"], "MHz", "That of its multiprocessors.", |device| {
        text(device.highest_clock(Clock::Multiprocessors))
    }),
    field(&["clocks.max.memory", "clocks.max.mem"], "MHz", "That of its memory.", |device| {
        text(device.highest_clock(Clock::Memory))
    }),
    field(&["mig.mode.current"], "", "Whether it is in MIG mode.", |device| {
        text(device.mig_mode().map(|(current, _)| enabled(current)))
    }),
    field(&["mig.mode.pending"], "", "Whether it will be after the next reset.", |device| {
        text(device.mig_mode().map(|(_, pending)| enabled(pending)))
    }),
];
