//! `cuFunc…` and `cuOccupancy…`: what is known of a kernel.

use std::ffi::{c_char, c_void};

use crate::call::call;
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::launch::{MOST_THREADS, SHARED_MEMORY};
use crate::table::Handle;

/// Threads and blocks that a multiprocessor holds at once.
const MOST_RESIDENT: i32 = 2048;
const MOST_BLOCKS: i32 = 32;

/// Registers of one thread of any kernel here: our choice.
const REGISTERS: i32 = 32;

/// `CU_FUNC_ATTRIBUTE_…` of cuda.h.
fn attribute(parts: &Parts, number: u32) -> Outcome<i32> {
    let (_, slot) = parts.current()?;
    let (major, minor) = parts.slots[slot].card.capability;
    Ok(match number {
        0 => MOST_THREADS as i32,
        4 => REGISTERS,
        5 | 6 => major * 10 + minor,
        8 => SHARED_MEMORY as i32,
        9 => -1,
        1..=17 => 0,
        _ => return Err(Code::INVALID_VALUE),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(value: *mut i32, number: u32, function: Handle) -> i32 {
    call("cuFuncGetAttribute", |parts| {
        parts.modules.function(function)?;
        // SAFETY: the C caller gives a place for an int.
        unsafe { give(value, attribute(parts, number)?) }
    })
}

/// What may be set has no effect here.
#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(function: Handle, number: u32, _value: i32) -> i32 {
    call("cuFuncSetAttribute", |parts| {
        parts.modules.function(function)?;
        if [8, 9, 11, 12, 13, 14, 15].contains(&number) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetCacheConfig(function: Handle, config: u32) -> i32 {
    call("cuFuncSetCacheConfig", |parts| {
        parts.modules.function(function)?;
        if config <= 3 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetName(name: *mut *const c_char, function: Handle) -> i32 {
    call("cuFuncGetName", |parts| {
        let found = parts.modules.function(function)?;
        // SAFETY: the C caller gives a place for a pointer.
        unsafe { give(name, found.kernel.name.as_ptr()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetModule(module: *mut Handle, function: Handle) -> i32 {
    call("cuFuncGetModule", |parts| {
        let found = parts.modules.function(function)?;
        // SAFETY: the C caller gives a place for a CUmodule.
        unsafe { give(module, found.home) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetParamInfo(
    function: Handle,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> i32 {
    call("cuFuncGetParamInfo", |parts| {
        let kernel = parts.modules.function(function)?.kernel;
        let found = kernel.offsets().into_iter().zip(kernel.parameters).nth(index).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the C caller gives a place for a size_t, and perhaps another.
        unsafe {
            give(offset, found.0)?;
            if size.is_null() { Ok(()) } else { give(size, *found.1) }
        }
    })
}

/// How many blocks of that size one multiprocessor holds.
fn blocks_of(block: i32) -> Outcome<i32> {
    if (1..=MOST_THREADS as i32).contains(&block) {
        Ok((MOST_RESIDENT / block).min(MOST_BLOCKS))
    } else {
        Err(Code::INVALID_VALUE)
    }
}

fn occupancy(name: &str, blocks: *mut i32, function: Handle, block: i32) -> i32 {
    call(name, |parts| {
        parts.modules.function(function)?;
        // SAFETY: the C caller gives a place for an int.
        unsafe { give(blocks, blocks_of(block)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut i32,
    function: Handle,
    block: i32,
    _shared: usize,
) -> i32 {
    occupancy("cuOccupancyMaxActiveBlocksPerMultiprocessor", blocks, function, block)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: *mut i32,
    function: Handle,
    block: i32,
    _shared: usize,
    _flags: u32,
) -> i32 {
    occupancy("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", blocks, function, block)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxPotentialBlockSize(
    grid: *mut i32,
    block: *mut i32,
    function: Handle,
    _shared_of_block: *const c_void,
    _shared: usize,
    limit: i32,
) -> i32 {
    call("cuOccupancyMaxPotentialBlockSize", |parts| {
        parts.modules.function(function)?;
        let (_, slot) = parts.current()?;
        let most = MOST_THREADS as i32;
        let size = if limit > 0 { limit.min(most) } else { most };
        let blocks = blocks_of(size)? * parts.slots[slot].multiprocessors() as i32;
        // SAFETY: the C caller gives places for two ints.
        unsafe { give(grid, blocks).and_then(|()| give(block, size)) }
    })
}
