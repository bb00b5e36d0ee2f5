//! `cuMulticast…`: groups of devices whose memory is written to as one, NCCL's NVLS. A group can be made, joined and released;
//! no memory can be bound to it.

use std::mem::offset_of;

use crate::call::call;
use crate::codes::{Code, Outcome, give};
use crate::properties::DESCRIPTOR;
use crate::reservation::GRANULARITY;
use crate::slots::Slot;
use crate::table::Handle;

/// `CUmulticastObjectProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Properties {
    devices: u32,
    bytes: usize,
    handle_types: u64,
    flags: u64,
}

// As `cuda.h` of CUDA 12.9 and 13.5 lays it out.
const _: () = {
    assert!(size_of::<Properties>() == 32 && offset_of!(Properties, devices) == 0);
    assert!(offset_of!(Properties, bytes) == 8 && offset_of!(Properties, handle_types) == 16);
    assert!(offset_of!(Properties, flags) == 24);
};

impl Properties {
    /// # Safety
    ///
    /// The pointer must be null or to a whole `CUmulticastObjectProp`.
    unsafe fn checked(properties: *const Properties) -> Outcome<Properties> {
        if properties.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and promised by the caller.
        let properties = unsafe { properties.read() };
        let is_whole = properties.bytes > 0 && properties.bytes.is_multiple_of(GRANULARITY as usize);
        if properties.devices == 0 || !is_whole || properties.flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if properties.handle_types & !u64::from(DESCRIPTOR) != 0 { Err(Code::NOT_SUPPORTED) } else { Ok(properties) }
    }
}

/// A group.
#[derive(Debug)]
pub struct Group {
    size: usize,
    /// The slots that have joined.
    slots: Vec<usize>,
}

/// Whether a device can be in a group: a whole card, from Hopper on.
pub fn can_join(slot: &Slot) -> bool {
    slot.card.capability.0 >= 9 && slot.instance.is_none()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMulticastCreate(group: *mut Handle, properties: *const Properties) -> i32 {
    call("cuMulticastCreate", |parts| {
        // SAFETY: the C caller gives a description or null.
        let properties = unsafe { Properties::checked(properties) }?;
        if group.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        if !parts.shown.iter().any(|slot| can_join(&parts.slots[*slot])) {
            return Err(Code::NOT_SUPPORTED);
        }
        let new = parts.groups.enter(Group { size: properties.devices as usize, slots: Vec::new() });
        // SAFETY: not null, and the C caller gives a place for a CUmemGenericAllocationHandle.
        unsafe { give(group, new) }
    })
}

/// A device joins for as long as the group is there.
#[unsafe(no_mangle)]
pub extern "C" fn cuMulticastAddDevice(group: Handle, device: i32) -> i32 {
    call("cuMulticastAddDevice", |parts| {
        let slot = parts.slot_of_device(device)?;
        let group = parts.groups.get_mut(group).ok_or(Code::INVALID_VALUE)?;
        if !can_join(&parts.slots[slot]) {
            return Err(Code::NOT_SUPPORTED);
        }
        if group.slots.contains(&slot) || group.slots.len() == group.size {
            return Err(Code::INVALID_VALUE);
        }
        group.slots.push(slot);
        Ok(())
    })
}

/// `CU_MULTICAST_GRANULARITY_MINIMUM` and `_RECOMMENDED` are the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMulticastGetGranularity(
    granularity: *mut usize,
    properties: *const Properties,
    option: u32,
) -> i32 {
    call("cuMulticastGetGranularity", |_| {
        if properties.is_null() || option > 1 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the C caller gives a place for a size_t.
        unsafe { give(granularity, GRANULARITY as usize) }
    })
}
