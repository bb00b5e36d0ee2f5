//! `cuMemAlloc…` and `cuMemFree…`: device memory.

use std::os::fd::AsFd;
use std::sync::Arc;

use baton_sim_wire::whole_pages;

use crate::call::{call, inside};
use crate::codes::{Code, Outcome, give};
use crate::driver::{Driver, Parts};
use crate::mapping::Mapping;
use crate::memory::{Block, Pinning, Place};
use crate::stream::{Mark, wait_for};
use crate::table::Handle;

/// `CU_MEM_ATTACH_GLOBAL` and `CU_MEM_ATTACH_HOST`: what `cuMemAllocManaged` takes.
const ATTACH: [u32; 2] = [1, 2];

/// Rows of pitched memory begin on this boundary.
const PITCH: usize = 512;

/// Takes device memory for the calling thread's context.
pub fn allocate(parts: &mut Parts, bytes: usize, pool: Option<Handle>) -> Outcome<u64> {
    let (context, slot) = parts.current()?;
    let block = Block { context: Some(context), pool, ..take(parts, slot, bytes)? };
    Ok(parts.memory.enter(block))
}

/// Takes memory of a device, for no context.
pub fn take(parts: &mut Parts, slot: usize, bytes: usize) -> Outcome<Block> {
    let whole = whole_pages(bytes as u64).filter(|bytes| *bytes > 0).ok_or(Code::INVALID_VALUE)?;
    within_limit(parts, slot, whole)?;
    let (range, memory) = parts.session()?.allocate(parts.slots[slot].device(), whole)?;
    let mapping = Mapping::of_card(memory.as_fd(), range.offset, range.bytes).map_err(|_| Code::OPERATING_SYSTEM)?;
    let place = Place::Card { offset: range.offset, mapping: Arc::new(mapping) };
    let id = parts.memory.next_id();
    Ok(Block { context: None, slot, asked: bytes, bytes: whole, place, exported: None, opened: None, pool: None, id })
}

/// Lets go of memory on a card: the process's own, or what it has opened.
pub fn give_back(parts: &Parts, block: &Block) -> Outcome {
    let Place::Card { offset, .. } = block.place else { return Err(Code::ILLEGAL_STATE) };
    match block.opened {
        Some(opened) => parts.session()?.import_gone(opened.key),
        None => parts.session()?.free(parts.slots[block.slot].device(), offset),
    }
}

/// Whether an MPS server lets the process have so much more of a device.
fn within_limit(parts: &Parts, slot: usize, bytes: u64) -> Outcome {
    let Some(mps) = &parts.mps else { return Ok(()) };
    let limit = mps.limit(parts.slots[slot].device(), parts.device_of_slot(slot)?);
    let held: u64 = parts.memory.blocks.values().filter(|block| block.slot == slot).map(|block| block.bytes).sum();
    if limit.is_some_and(|limit| held.saturating_add(bytes) > limit) { Err(Code::OUT_OF_MEMORY) } else { Ok(()) }
}

/// Gives an allocation back.
fn free(parts: &mut Parts, pointer: u64) -> Outcome {
    let block = parts.memory.blocks.get(&pointer).filter(|block| block.opened.is_none()).ok_or(Code::INVALID_VALUE)?;
    give_back(parts, block)?;
    parts.memory.blocks.remove(&pointer);
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) -> i32 {
    call("cuMemAlloc_v2", |parts| {
        if pointer.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let new = allocate(parts, bytes, None)?;
        // SAFETY: the C caller gives a place for a CUdeviceptr.
        unsafe { give(pointer, new) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocPitch_v2(
    pointer: *mut u64,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> i32 {
    call("cuMemAllocPitch_v2", |parts| {
        if pointer.is_null() || pitch.is_null() || ![4, 8, 16].contains(&element) {
            return Err(Code::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(PITCH).ok_or(Code::INVALID_VALUE)?;
        let new = allocate(parts, row.checked_mul(height).ok_or(Code::INVALID_VALUE)?, None)?;
        // SAFETY: the C caller gives places for a size_t and a CUdeviceptr.
        unsafe { give(pitch, row).and_then(|()| give(pointer, new)) }
    })
}

/// The context's work that may still use what is to go.
fn work_on(parts: &Parts, pointer: u64) -> Vec<Mark> {
    let block = parts.memory.blocks.get(&pointer).and_then(|block| block.context);
    let context = block.or_else(|| parts.memory.pinned.get(&pointer).map(|pinned| pinned.context));
    context.map_or_else(Vec::new, |context| parts.work_of(context))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(pointer: u64) -> i32 {
    inside("cuMemFree_v2", |inside| {
        if pointer == 0 {
            return Ok(());
        }
        let work = {
            let parts = inside.parts();
            parts.current()?;
            work_on(&parts, pointer)
        };
        wait_for(&work);
        let mut parts = inside.parts();
        if parts.memory.pinned.get(&pointer).is_some_and(|pinned| matches!(pinned.pinning, Pinning::Managed(_))) {
            parts.memory.pinned.remove(&pointer);
            return Ok(());
        }
        free(&mut parts, pointer)
    })
}

/// Memory that moves between host and card with whoever touches it; here it stays in the process, and no process that has
/// some can be checkpointed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocManaged(pointer: *mut u64, bytes: usize, flags: u32) -> i32 {
    call("cuMemAllocManaged", |parts| {
        if pointer.is_null() || !ATTACH.contains(&flags) {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the C caller gives a place for a CUdeviceptr.
        unsafe { give(pointer, crate::host_memory::take(parts, bytes, flags, Pinning::Managed)?) }
    })
}

/// Memory taken in the order of a stream: here at once.
pub fn allocate_async(parts: &mut Parts, pointer: *mut u64, bytes: usize, pool: Handle, stream: Handle) -> Outcome {
    parts.stream(stream)?;
    if pointer.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let new = allocate(parts, bytes, Some(pool))?;
    // SAFETY: the C caller gives a place for a CUdeviceptr.
    unsafe { give(pointer, new) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(pointer: *mut u64, bytes: usize, stream: Handle) -> i32 {
    call("cuMemAllocAsync", |parts| {
        let pool = parts.pools.of_slot(parts.current()?.1)?;
        allocate_async(parts, pointer, bytes, pool, stream)
    })
}

/// Gives memory back when the stream comes to it.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync(pointer: u64, stream: Handle) -> i32 {
    inside("cuMemFreeAsync", |inside| {
        let mut parts = inside.parts();
        let stream = parts.stream(stream)?;
        if pointer == 0 {
            return Ok(());
        }
        if !parts.memory.blocks.contains_key(&pointer) {
            return Err(Code::INVALID_VALUE);
        }
        let before = parts.work_before(&stream);
        let job = move |_: Outcome| {
            // Freed twice or otherwise gone: nothing to be done any more.
            let _ = free(&mut Driver::get()?.parts(), pointer);
            Ok(())
        };
        stream.submit(&inside.place, before, Box::new(job)).map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> i32 {
    call("cuMemGetInfo_v2", |parts| {
        let slot = parts.current()?.1;
        let machine = parts.session()?.machine()?;
        let room = parts.slots[slot].room(&machine.cards)?;
        // SAFETY: the C caller gives places for two size_t.
        unsafe { give(free, room as usize).and_then(|()| give(total, parts.slots[slot].memory() as usize)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut usize, pointer: u64) -> i32 {
    call("cuMemGetAddressRange_v2", |parts| {
        let block = parts.memory.block(pointer).map(|(start, block)| (start, block.asked));
        let mapped =
            || parts.memory.reservations.mapping(pointer).map(|(start, mapped)| (start, mapped.bytes as usize));
        let host = || parts.memory.host(pointer).map(|(start, pinned)| (start, pinned.bytes));
        let (start, length) = block.or_else(mapped).or_else(host).ok_or(Code::NOT_FOUND)?;
        // SAFETY: the C caller gives places, or null for what it does not want.
        unsafe {
            let one = if base.is_null() { Ok(()) } else { give(base, start) };
            let two = if bytes.is_null() { Ok(()) } else { give(bytes, length) };
            one.and(two)
        }
    })
}
