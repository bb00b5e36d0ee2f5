//! `cuMemCreate` and what is known of a handle: memory of a card that is mapped by the program itself.
//!
//! It is a block like those of `cuMemAlloc`, without a pointer of its own. It goes back when no handle and no mapping is left.

use std::ffi::c_void;

use crate::allocation::{give_back, take};
use crate::call::call;
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::memory::Block;
use crate::properties::Properties;
use crate::reservation::GRANULARITY;
use crate::table::Handle;

/// What a handle stands for.
#[derive(Debug)]
pub struct Physical {
    /// Its place among the blocks.
    pub block: u64,
    /// What it was made with.
    pub properties: Properties,
    /// How often the handle has been given and not released; with none it stands for the memory's mappings only.
    pub references: u32,
    /// How often the memory is mapped.
    pub mappings: u32,
}

/// Enters a block; its first handle comes back.
pub fn enter(parts: &mut Parts, block: Block, properties: Properties) -> Handle {
    let block = parts.memory.enter_apart(block);
    parts.memory.physical.enter(Physical { block, properties, references: 1, mappings: 0 })
}

/// What a handle stands for that has not been released.
pub fn live(parts: &mut Parts, handle: Handle) -> Outcome<&mut Physical> {
    let found = parts.memory.physical.get_mut(handle).filter(|physical| physical.references > 0);
    found.ok_or(Code::INVALID_VALUE)
}

/// Gives the memory back if nobody has it any more.
pub fn let_go_if_unused(parts: &mut Parts, handle: Handle) -> Outcome {
    let physical = parts.memory.physical.get(handle).ok_or(Code::INVALID_VALUE)?;
    if physical.references > 0 || physical.mappings > 0 {
        return Ok(());
    }
    let place = physical.block;
    give_back(parts, parts.memory.blocks.get(&place).ok_or(Code::UNKNOWN)?)?;
    parts.memory.physical.take(handle);
    parts.memory.blocks.remove(&place);
    Ok(())
}

/// # Safety
///
/// The pointer must be null or to a whole `CUmemAllocationProp`.
unsafe fn read(properties: *const Properties) -> Outcome<Properties> {
    // SAFETY: not null, and promised by the caller.
    if properties.is_null() { Err(Code::INVALID_VALUE) } else { Ok(unsafe { properties.read() }) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemCreate(
    handle: *mut Handle,
    bytes: usize,
    properties: *const Properties,
    flags: u64,
) -> i32 {
    call("cuMemCreate", |parts| {
        // SAFETY: the C caller gives a description or null.
        let properties = unsafe { read(properties) }?;
        let slot = properties.slot(parts)?;
        if handle.is_null() || flags != 0 || bytes == 0 || !bytes.is_multiple_of(GRANULARITY as usize) {
            return Err(Code::INVALID_VALUE);
        }
        let block = take(parts, slot, bytes)?;
        // SAFETY: the C caller gives a place for a CUmemGenericAllocationHandle.
        unsafe { give(handle, enter(parts, block, properties.as_made())) }
    })
}

/// Also of a multicast group.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemRelease(handle: Handle) -> i32 {
    call("cuMemRelease", |parts| {
        if parts.groups.take(handle).is_some() {
            return Ok(());
        }
        live(parts, handle)?.references -= 1;
        let_go_if_unused(parts, handle)
    })
}

/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM` and `_RECOMMENDED` are the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAllocationGranularity(
    granularity: *mut usize,
    properties: *const Properties,
    option: u32,
) -> i32 {
    call("cuMemGetAllocationGranularity", |parts| {
        // SAFETY: the C caller gives a description or null.
        unsafe { read(properties) }?.slot(parts)?;
        if option > 1 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the C caller gives a place for a size_t.
        unsafe { give(granularity, GRANULARITY as usize) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAllocationPropertiesFromHandle(properties: *mut Properties, handle: Handle) -> i32 {
    call("cuMemGetAllocationPropertiesFromHandle", |parts| {
        let found = live(parts, handle)?.properties;
        // SAFETY: the C caller gives a place for a CUmemAllocationProp.
        unsafe { give(properties, found) }
    })
}

/// The handle that was mapped at an address, once more, also if it has been released since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemRetainAllocationHandle(handle: *mut Handle, address: *mut c_void) -> i32 {
    call("cuMemRetainAllocationHandle", |parts| {
        let mapped = parts.memory.reservations.mapping(address as u64).ok_or(Code::INVALID_VALUE)?.1.memory;
        // SAFETY: the C caller gives a place for a CUmemGenericAllocationHandle.
        unsafe { give(handle, mapped) }?;
        let physical = parts.memory.physical.get_mut(mapped).ok_or(Code::UNKNOWN)?;
        physical.references += 1;
        Ok(())
    })
}
