//! `cuDevice…`.

use std::ffi::{CStr, c_char};

use crate::attribute::attribute;
use crate::call::call;
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::slots::Slot;

fn slot(parts: &Parts, device: i32) -> Outcome<&Slot> {
    Ok(&parts.slots[parts.slot_of_device(device)?])
}

/// Copies `text` into the `length` bytes at `to`, cut to fit, and fills the rest with NULs, of which there is one at least.
///
/// # Safety
///
/// `to` must be null or valid for `length` bytes.
unsafe fn give_text(to: *mut c_char, length: i32, text: &str) -> Outcome {
    let room = usize::try_from(length).ok().filter(|room| *room > 0 && !to.is_null()).ok_or(Code::INVALID_VALUE)?;
    let bytes = &text.as_bytes()[..text.len().min(room - 1)];
    // SAFETY: `room` bytes are written.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len());
        to.add(bytes.len()).write_bytes(0, room - bytes.len());
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut i32) -> i32 {
    // SAFETY: the C caller gives a place for an int.
    call("cuDeviceGetCount", |parts| unsafe { give(count, parts.shown.len() as i32) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut i32, ordinal: i32) -> i32 {
    // SAFETY: the C caller gives a place for a CUdevice.
    call("cuDeviceGet", |parts| slot(parts, ordinal).and_then(|_| unsafe { give(device, ordinal) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: i32, device: i32) -> i32 {
    call("cuDeviceGetName", |parts| {
        let found = slot(parts, device)?.name();
        // SAFETY: the C caller gives `length` bytes at `name`.
        unsafe { give_text(name, length, &found) }
    })
}

/// The card's UUID, also for a MIG device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: i32) -> i32 {
    // SAFETY: the C caller gives a place for a CUuuid.
    call("cuDeviceGetUuid", |parts| unsafe { give(uuid, slot(parts, device)?.card.uuid_bytes()) })
}

/// The device's own UUID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: i32) -> i32 {
    // SAFETY: the C caller gives a place for a CUuuid.
    call("cuDeviceGetUuid_v2", |parts| unsafe { give(uuid, slot(parts, device)?.uuid()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) -> i32 {
    // SAFETY: the C caller gives a place for a size_t.
    call("cuDeviceTotalMem_v2", |parts| unsafe { give(bytes, slot(parts, device)?.memory() as usize) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(text: *mut c_char, length: i32, device: i32) -> i32 {
    call("cuDeviceGetPCIBusId", |parts| {
        let bus_id = slot(parts, device)?.bus_id.to_uppercase();
        // SAFETY: the C caller gives `length` bytes at `text`.
        unsafe { give_text(text, length, &bus_id) }
    })
}

/// A PCI address in any of the forms that cuda.h allows, as `domain:bus:device.function`.
fn whole_bus_id(text: &str) -> String {
    let text = text.to_lowercase();
    let text = if text.matches(':').count() == 1 { format!("0000:{text}") } else { text };
    if text.contains('.') { text } else { format!("{text}.0") }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetByPCIBusId(device: *mut i32, text: *const c_char) -> i32 {
    call("cuDeviceGetByPCIBusId", |parts| {
        if text.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the C caller gives a NUL-terminated text.
        let wanted = whole_bus_id(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
        let found = parts.shown.iter().position(|slot| parts.slots[*slot].bus_id == wanted);
        // SAFETY: the C caller gives a place for a CUdevice.
        found.ok_or(Code::INVALID_DEVICE).and_then(|index| unsafe { give(device, index as i32) })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut i32, number: i32, device: i32) -> i32 {
    // SAFETY: the C caller gives a place for an int.
    call("cuDeviceGetAttribute", |parts| unsafe { give(value, attribute(slot(parts, device)?, number)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: i32) -> i32 {
    call("cuDeviceComputeCapability", |parts| {
        let found = slot(parts, device)?.card.capability;
        // SAFETY: the C caller gives places for two ints.
        unsafe { give(major, found.0).and_then(|()| give(minor, found.1)) }
    })
}

/// `CU_EXEC_AFFINITY_TYPE_SM_COUNT` takes an MPS client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetExecAffinitySupport(supported: *mut i32, kind: u32, device: i32) -> i32 {
    call("cuDeviceGetExecAffinitySupport", |parts| {
        slot(parts, device)?;
        // SAFETY: the C caller gives a place for an int.
        if kind == 0 { unsafe { give(supported, 0) } } else { Err(Code::INVALID_VALUE) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_all_their_forms() {
        for text in ["0000:1b:00.0", "0000:1B:00", "1b:00.0", "1B:00"] {
            assert_eq!(whole_bus_id(text), "0000:1b:00.0");
        }
    }
}
