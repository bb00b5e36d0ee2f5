//! `nvmlDevice…`.

use std::ffi::{CStr, c_char};

use baton_sim_wire::{Card, RESERVED_BYTES};

use crate::codes::{Code, Outcome, give, give_text};
use crate::library::{Handle, call};

/// `nvmlMemory_t`.
#[repr(C)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`; the version names the size, as NVML_STRUCT_VERSION does.
#[repr(C)]
struct MemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

const MEMORY_V2: u32 = size_of::<MemoryV2>() as u32 | 2 << 24;

/// `nvmlPciInfo_t`.
#[repr(C)]
struct PciInfo {
    legacy_bus_id: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    bus_id: [u8; 32],
}

/// Answers with a number about a card.
fn number<T>(device: Handle, to: *mut T, of: impl FnOnce(&Card) -> T) -> i32 {
    // SAFETY: every caller below is a C function whose caller gives a place for a T.
    call(|library| library.card(device).and_then(|card| unsafe { give(to, of(card)) }))
}

/// Answers with a text about a card.
fn text(device: Handle, to: *mut c_char, room: u32, of: impl FnOnce(&Card) -> String) -> i32 {
    // SAFETY: every caller below is a C function whose caller gives `room` bytes.
    call(|library| library.card(device).and_then(|card| unsafe { give_text(to, room, &of(card)) }))
}

/// # Safety
///
/// `text` must be null or NUL-terminated.
unsafe fn read_text(text: *const c_char) -> Outcome<String> {
    if text.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: not null, and NUL-terminated as the C caller promises.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().to_lowercase())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut u32) -> i32 {
    // SAFETY: the C caller gives a place for an unsigned int.
    call(|library| unsafe { give(count, library.cards.len() as u32) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, device: *mut Handle) -> i32 {
    call(|library| {
        let card = library.cards.get(index as usize).ok_or(Code::INVALID_ARGUMENT)?;
        // SAFETY: the C caller gives a place for a handle.
        library.handle(|other| other.uuid == card.uuid).and_then(|found| unsafe { give(device, found) })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut Handle) -> i32 {
    call(|library| {
        // SAFETY: the C caller gives a NUL-terminated text.
        let wanted = unsafe { read_text(uuid) }?;
        // SAFETY: the C caller gives a place for a handle.
        library.handle(|card| card.uuid.to_lowercase() == wanted).and_then(|found| unsafe { give(device, found) })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(bus_id: *const c_char, device: *mut Handle) -> i32 {
    call(|library| {
        // SAFETY: the C caller gives a NUL-terminated text.
        let wanted = unsafe { read_text(bus_id) }?;
        let found = library.handle(|card| {
            let short = card.bus_id();
            wanted == short || wanted == format!("0000{short}")
        })?;
        // SAFETY: the C caller gives a place for a handle.
        unsafe { give(device, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetIndex(device: Handle, index: *mut u32) -> i32 {
    // SAFETY: the C caller gives a place for an unsigned int.
    call(|library| library.index(device).and_then(|found| unsafe { give(index, found) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMinorNumber(device: Handle, minor: *mut u32) -> i32 {
    number(device, minor, |card| card.minor)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetName(device: Handle, name: *mut c_char, room: u32) -> i32 {
    text(device, name, room, |card| card.model.clone())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetUUID(device: Handle, uuid: *mut c_char, room: u32) -> i32 {
    text(device, uuid, room, |card| card.uuid.clone())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Handle, memory: *mut Memory) -> i32 {
    call(|library| {
        let held = library.usage(device)?;
        // The first version counts what the driver keeps for itself as used.
        let info = Memory { total: held.card.memory, free: held.free, used: held.card.memory - held.free };
        // SAFETY: the C caller gives a place for the struct.
        unsafe { give(memory, info) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: *mut MemoryV2) -> i32 {
    call(|library| {
        if memory.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: not null; the version is the first member of every version of the struct.
        if unsafe { memory.cast::<u32>().read() } != MEMORY_V2 {
            return Err(Code::ARGUMENT_VERSION_MISMATCH);
        }
        let held = library.usage(device)?;
        let info = MemoryV2 {
            version: MEMORY_V2,
            total: held.card.memory,
            reserved: RESERVED_BYTES,
            free: held.free,
            used: held.used,
        };
        // SAFETY: the C caller gives a place for this version of the struct.
        unsafe { give(memory, info) }
    })
}

fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0u8; N];
    let length = text.len().min(N - 1);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Handle, info: *mut PciInfo) -> i32 {
    number(device, info, |card| {
        let short = card.bus_id().to_uppercase();
        PciInfo {
            legacy_bus_id: padded(&short),
            domain: card.pci.0,
            bus: card.pci.1,
            device: card.pci.2,
            device_id: card.pci_ids.0,
            subsystem_id: card.pci_ids.1,
            bus_id: padded(&format!("0000{short}")),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPciInfo_v2(device: Handle, info: *mut PciInfo) -> i32 {
    // SAFETY: the layout is the same.
    unsafe { nvmlDeviceGetPciInfo_v3(device, info) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(device: Handle, major: *mut i32, minor: *mut i32) -> i32 {
    call(|library| {
        let (first, second) = library.card(device)?.capability;
        // SAFETY: the C caller gives places for two ints.
        unsafe { give(major, first).and_then(|()| give(minor, second)) }
    })
}

/// `nvmlDeviceArchitecture_t`: Ampere 7, Hopper 9.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetArchitecture(device: Handle, architecture: *mut u32) -> i32 {
    number(device, architecture, |card| if card.capability.0 == 8 { 7 } else { 9 })
}

/// `NVML_BRAND_NVIDIA`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetBrand(device: Handle, brand: *mut u32) -> i32 {
    number(device, brand, |_| 14)
}

/// Both models can do MIG; it is off.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMigMode(device: Handle, current: *mut u32, pending: *mut u32) -> i32 {
    call(|library| {
        library.card(device)?;
        // SAFETY: the C caller gives places for two unsigned ints.
        unsafe { give(current, 0).and_then(|()| give(pending, 0)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, count: *mut u32) -> i32 {
    number(device, count, |_| 7)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(device: Handle, _index: u32, _instance: *mut Handle) -> i32 {
    call(|library| library.card(device).and(Err(Code::NOT_FOUND)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceIsMigDeviceHandle(device: Handle, is: *mut u32) -> i32 {
    number(device, is, |_| 0)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceId(device: Handle, _id: *mut u32) -> i32 {
    call(|library| library.card(device).and(Err(Code::NOT_SUPPORTED)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeInstanceId(device: Handle, _id: *mut u32) -> i32 {
    call(|library| library.card(device).and(Err(Code::NOT_SUPPORTED)))
}

/// `NVML_COMPUTEMODE_DEFAULT`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetComputeMode(device: Handle, mode: *mut u32) -> i32 {
    number(device, mode, |_| 0)
}

/// On.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPersistenceMode(device: Handle, mode: *mut u32) -> i32 {
    number(device, mode, |_| 1)
}

/// `NVML_GPU_VIRTUALIZATION_MODE_NONE`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetVirtualizationMode(device: Handle, mode: *mut u32) -> i32 {
    number(device, mode, |_| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Memory>(), 24);
        assert_eq!(size_of::<MemoryV2>(), 40);
        assert_eq!(MEMORY_V2, 0x0200_0028);
        assert_eq!(size_of::<PciInfo>(), 68);
    }
}
