//! `cuDevice…`.

use std::ffi::{CStr, c_char};

use baton_sim_wire::RESERVED_BYTES;

use crate::codes::{Code, Outcome, give};
use crate::driver::{Parts, call};
use crate::slots::Slot;

fn slot(parts: &Parts, device: i32) -> Outcome<&Slot> {
    Ok(&parts.slots[parts.slot_of_device(device)?])
}

/// Copies `text` and a NUL into the `length` bytes at `to`, cut to fit.
///
/// # Safety
///
/// `to` must be null or valid for `length` bytes.
unsafe fn give_text(to: *mut c_char, length: i32, text: &str) -> Outcome {
    let room = usize::try_from(length).ok().filter(|room| *room > 0 && !to.is_null()).ok_or(Code::INVALID_VALUE)?;
    let bytes = &text.as_bytes()[..text.len().min(room - 1)];
    // SAFETY: at most room - 1 bytes and the NUL are written.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len());
        to.add(bytes.len()).write(0);
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut i32) -> i32 {
    // SAFETY: the C caller gives a place for an int.
    call(|parts| unsafe { give(count, parts.shown.len() as i32) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut i32, ordinal: i32) -> i32 {
    // SAFETY: the C caller gives a place for a CUdevice.
    call(|parts| slot(parts, ordinal).and_then(|_| unsafe { give(device, ordinal) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: i32, device: i32) -> i32 {
    // SAFETY: the C caller gives `length` bytes at `name`.
    call(|parts| slot(parts, device).and_then(|slot| unsafe { give_text(name, length, &slot.card.model) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: i32) -> i32 {
    // SAFETY: the C caller gives a place for a CUuuid.
    call(|parts| slot(parts, device).and_then(|slot| unsafe { give(uuid, slot.card.uuid_bytes()) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: i32) -> i32 {
    // SAFETY: as for the first version.
    unsafe { cuDeviceGetUuid(uuid, device) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) -> i32 {
    call(|parts| {
        let total = slot(parts, device)?.card.memory - RESERVED_BYTES;
        // SAFETY: the C caller gives a place for a size_t.
        unsafe { give(bytes, total as usize) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(text: *mut c_char, length: i32, device: i32) -> i32 {
    // SAFETY: the C caller gives `length` bytes at `text`.
    call(|parts| slot(parts, device).and_then(|slot| unsafe { give_text(text, length, &slot.bus_id.to_uppercase()) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetByPCIBusId(device: *mut i32, text: *const c_char) -> i32 {
    if text.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: the C caller gives a NUL-terminated text.
    let wanted = unsafe { CStr::from_ptr(text) }.to_string_lossy().to_lowercase();
    call(|parts| {
        let found = parts.shown.iter().position(|slot| parts.slots[*slot].bus_id == wanted);
        // SAFETY: the C caller gives a place for a CUdevice.
        found.ok_or(Code::INVALID_DEVICE).and_then(|index| unsafe { give(device, index as i32) })
    })
}

/// The attributes that programs ask for; the others are 0.
fn attribute(slot: &Slot, number: i32) -> Outcome<i32> {
    let (major, minor) = slot.card.capability;
    Ok(match number {
        1 | 2 => 1024,
        3 | 4 => {
            if number == 4 {
                64
            } else {
                1024
            }
        }
        10 => 32,
        13 => 1_980_000,
        16 => {
            if major == 9 {
                132
            } else {
                108
            }
        }
        33 => slot.card.pci.1 as i32,
        34 => slot.card.pci.2 as i32,
        41 => 1,
        50 => slot.card.pci.0 as i32,
        75 => major,
        76 => minor,
        number if (1..200).contains(&number) => 0,
        _ => return Err(Code::INVALID_VALUE),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut i32, number: i32, device: i32) -> i32 {
    call(|parts| {
        let found = attribute(slot(parts, device)?, number)?;
        // SAFETY: the C caller gives a place for an int.
        unsafe { give(value, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: i32) -> i32 {
    call(|parts| {
        let found = slot(parts, device)?.card.capability;
        // SAFETY: the C caller gives places for two ints.
        unsafe { give(major, found.0).and_then(|()| give(minor, found.1)) }
    })
}
