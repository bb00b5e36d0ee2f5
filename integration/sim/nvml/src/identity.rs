//! What a device is and is called.

use baton_sim_wire::Card;

use crate::codes::{Code, Outcome};
use crate::handle::{Handle, Target};
use crate::layout::layout;
use crate::library::{Library, call};
use crate::mig_device;
use crate::pointer::{Place, TextPlace, Versioned, padded};

/// What every version of `nvmlPciInfo_t` begins with.
#[repr(C)]
struct PciNumbers {
    legacy_bus_id: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
}

layout!(PciNumbers, 36: legacy_bus_id 0, domain 16, bus 20, device 24, device_id 28, subsystem_id 32);

impl PciNumbers {
    fn of(card: &Card) -> PciNumbers {
        PciNumbers {
            legacy_bus_id: padded(&card.bus_id().to_uppercase()),
            domain: card.pci.0,
            bus: card.pci.1,
            device: card.pci.2,
            device_id: card.pci_ids.0,
            subsystem_id: card.pci_ids.1,
        }
    }
}

/// `nvmlPciInfo_t`.
#[repr(C)]
struct PciInfo {
    numbers: PciNumbers,
    bus_id: [u8; 32],
}

layout!(PciInfo, 68: numbers 0, bus_id 36);

/// `nvmlPciInfoExt_v1_t`.
#[repr(C)]
struct PciInfoExt {
    version: u32,
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    base_class: u32,
    sub_class: u32,
    bus_id: [u8; 32],
}

layout!(
    PciInfoExt, 64: version 0, domain 4, bus 8, device 12, device_id 16, subsystem_id 20, base_class 24, sub_class 28,
    bus_id 32
);

/// A PCI display controller that drives no display (PCI code and ID assignment: class 03, subclass 02).
const CLASS: (u32, u32) = (3, 2);

/// `NVML_BRAND_NVIDIA` of nvml.h.
const BRAND_NVIDIA: u32 = 14;
/// `NVML_BRAND_NVIDIA_VCS`: a vGPU for compute servers.
const BRAND_VCS: u32 = 9;

/// The address as NVML writes it: a domain of eight digits, in capitals.
pub fn long_bus_id(card: &Card) -> String {
    format!("0000{}", card.bus_id().to_uppercase())
}

/// The serial number of the board: thirteen digits that follow from the card's UUID.
pub fn serial(card: &Card) -> String {
    let bytes = card.uuid_bytes();
    let number = bytes.iter().take(6).fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    format!("16{:011}", number % 100_000_000_000)
}

/// Answers with a number about a card.
fn number<T>(name: &str, device: Handle, to: Place<T>, of: impl FnOnce(&Library, &Card) -> Outcome<T>) -> i32 {
    call(name, |library| to.give(of(library, library.card(device)?)?))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(device: Handle, name: TextPlace, room: u32) -> i32 {
    call("nvmlDeviceGetName", |library| match device.target()? {
        Target::Card(place) => name.give(room, &library.at(place)?.model),
        Target::Mig(..) => name.give(room, &mig_device::name(library, device)?),
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(device: Handle, uuid: TextPlace, room: u32) -> i32 {
    call("nvmlDeviceGetUUID", |library| match device.target()? {
        Target::Card(place) => uuid.give(room, &library.at(place)?.uuid),
        Target::Mig(..) => uuid.give(room, &mig_device::uuid(library, device)?),
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMinorNumber(device: Handle, minor: Place<u32>) -> i32 {
    number("nvmlDeviceGetMinorNumber", device, minor, |_, card| Ok(card.minor))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSerial(device: Handle, to: TextPlace, room: u32) -> i32 {
    call("nvmlDeviceGetSerial", |library| match library.card(device)? {
        card if card.guest => Err(Code::NOT_SUPPORTED),
        card => to.give(room, &serial(card)),
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetBrand(device: Handle, brand: Place<u32>) -> i32 {
    let of = |card: &Card| if card.guest { BRAND_VCS } else { BRAND_NVIDIA };
    number("nvmlDeviceGetBrand", device, brand, |_, card| Ok(of(card)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetArchitecture(device: Handle, architecture: Place<u32>) -> i32 {
    call("nvmlDeviceGetArchitecture", |library| {
        let place = device.target()?.card();
        architecture.give(library.now_at(place)?.model()?.architecture)
    })
}

/// A MIG device has its card's: CUDA's own tools ask for it by the handle that they have.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCudaComputeCapability(device: Handle, major: Place<i32>, minor: Place<i32>) -> i32 {
    call("nvmlDeviceGetCudaComputeCapability", |library| {
        let (first, second) = library.at(device.target()?.card())?.capability;
        major.exists().and(minor.exists())?;
        major.give(first).and(minor.give(second))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo_v3(device: Handle, info: Place<PciInfo>) -> i32 {
    number("nvmlDeviceGetPciInfo_v3", device, info, |_, card| {
        Ok(PciInfo { numbers: PciNumbers::of(card), bus_id: padded(&long_bus_id(card)) })
    })
}

/// The first version: its struct has no long bus id.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo(device: Handle, info: Place<PciNumbers>) -> i32 {
    number("nvmlDeviceGetPciInfo", device, info, |_, card| Ok(PciNumbers::of(card)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo_v2(device: Handle, info: Place<PciInfo>) -> i32 {
    nvmlDeviceGetPciInfo_v3(device, info)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfoExt(device: Handle, info: Versioned) -> i32 {
    call("nvmlDeviceGetPciInfoExt", |library| {
        let card = library.card(device)?;
        info.must_be::<PciInfoExt>(1)?.give(PciInfoExt {
            version: info.version()?,
            domain: card.pci.0,
            bus: card.pci.1,
            device: card.pci.2,
            device_id: card.pci_ids.0,
            subsystem_id: card.pci_ids.1,
            base_class: CLASS.0,
            sub_class: CLASS.1,
            bus_id: padded(&long_bus_id(card)),
        })
    })
}

/// As real drivers reckon it: domain, bus and device of a board with one card.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetBoardId(device: Handle, id: Place<u32>) -> i32 {
    number("nvmlDeviceGetBoardId", device, id, |_, card| Ok(card.pci.0 << 16 | card.pci.1 << 8 | card.pci.2))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMultiGpuBoard(device: Handle, several: Place<u32>) -> i32 {
    number("nvmlDeviceGetMultiGpuBoard", device, several, |_, _| Ok(0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetModuleId(device: Handle, module: Place<u32>) -> i32 {
    number("nvmlDeviceGetModuleId", device, module, |_, card| Ok(card.minor + 1))
}

/// The same as in `/proc/driver/nvidia/gpus/…/information`.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetVbiosVersion(device: Handle, version: TextPlace, room: u32) -> i32 {
    call("nvmlDeviceGetVbiosVersion", |library| {
        library.card(device)?;
        version.give(room, "96.00.74.00.01")
    })
}

/// The board's part number: the PCI ids in the form that NVIDIA prints on boards.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetBoardPartNumber(device: Handle, part: TextPlace, room: u32) -> i32 {
    call("nvmlDeviceGetBoardPartNumber", |library| match library.card(device)? {
        card if card.guest => Err(Code::NOT_SUPPORTED),
        card => part.give(room, &format!("692-2G{:03}-0200-000", card.pci_ids.0 >> 16 & 0x1ff)),
    })
}

/// The same as in `/proc/driver/nvidia/gpus/…/information`.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetIrqNum(device: Handle, irq: Place<u32>) -> i32 {
    number("nvmlDeviceGetIrqNum", device, irq, |_, card| Ok(40 + card.minor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::struct_version;

    #[test]
    fn a_versioned_struct_has_the_version_that_the_bindings_give() {
        // nvmlPciInfoExt_v1 of pynvml.py
        assert_eq!(struct_version::<PciInfoExt>(1), 0x0100_0040);
    }
}
