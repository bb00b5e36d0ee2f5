//! `cuMem…`.

use std::os::fd::AsFd;

use baton_sim_wire::{RESERVED_BYTES, whole_pages};

use crate::codes::{Code, Outcome, give};
use crate::context::current_slot;
use crate::driver::{Parts, call};
use crate::mapping::Mapping;
use crate::memory::{Block, Place};

fn allocate(parts: &mut Parts, bytes: usize) -> Outcome<u64> {
    let slot = current_slot(parts)?;
    let bytes = whole_pages(bytes as u64).filter(|bytes| *bytes > 0).ok_or(Code::INVALID_VALUE)?;
    let (range, memory) = parts.session()?.allocate(&parts.slots[slot].card, bytes)?;
    let mapping = Mapping::of_card(memory.as_fd(), range.offset, range.bytes).map_err(|_| Code::OPERATING_SYSTEM)?;
    Ok(parts.memory.enter(Block { slot, bytes, place: Place::Card { offset: range.offset, mapping } }))
}

fn free(parts: &mut Parts, pointer: u64) -> Outcome {
    let block = parts.memory.blocks.remove(&pointer).ok_or(Code::INVALID_VALUE)?;
    match block.place {
        Place::Card { offset, mapping } => {
            drop(mapping);
            parts.session()?.free(&parts.slots[block.slot].card, offset)
        }
        Place::Host(_) => Err(Code::ILLEGAL_STATE),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) -> i32 {
    if pointer.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: the C caller gives a place for a CUdeviceptr.
    call(|parts| allocate(parts, bytes).and_then(|new| unsafe { give(pointer, new) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(pointer: u64) -> i32 {
    call(|parts| if pointer == 0 { Ok(()) } else { free(parts, pointer) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> i32 {
    call(|parts| {
        let slot = current_slot(parts)?;
        let uuid = &parts.slots[slot].card.uuid;
        let machine = parts.session()?.machine()?;
        let held = machine.cards.iter().find(|held| held.card.uuid == *uuid).ok_or(Code::INVALID_DEVICE)?;
        // SAFETY: the C caller gives places for two size_t.
        unsafe {
            give(free, held.free as usize)?;
            give(total, (held.card.memory - RESERVED_BYTES) as usize)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut usize, pointer: u64) -> i32 {
    call(|parts| {
        parts.memory.find(pointer, 1)?;
        let (start, block) = parts.memory.blocks.range(..=pointer).next_back().ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the C caller gives places, or null for what it does not want.
        unsafe {
            let one = if base.is_null() { Ok(()) } else { give(base, *start) };
            let two = if bytes.is_null() { Ok(()) } else { give(bytes, block.bytes as usize) };
            one.and(two)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const u8, bytes: usize) -> i32 {
    call(|parts| {
        let place = parts.memory.find(to, bytes)?;
        if from.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: `place` has `bytes` bytes; the C caller promises as many at `from`.
        unsafe { std::ptr::copy(from, place, bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut u8, from: u64, bytes: usize) -> i32 {
    call(|parts| {
        let place = parts.memory.find(from, bytes)?;
        if to.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: `place` has `bytes` bytes; the C caller promises room for as many at `to`.
        unsafe { std::ptr::copy(place, to, bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> i32 {
    call(|parts| {
        let (to, from) = (parts.memory.find(to, bytes)?, parts.memory.find(from, bytes)?);
        // SAFETY: both have `bytes` bytes; copy allows overlap.
        unsafe { std::ptr::copy(from, to, bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(to: u64, value: u8, count: usize) -> i32 {
    call(|parts| {
        let place = parts.memory.find(to, count)?;
        // SAFETY: `place` has `count` bytes.
        unsafe { place.write_bytes(value, count) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32_v2(to: u64, value: u32, count: usize) -> i32 {
    call(|parts| {
        if !to.is_multiple_of(4) {
            return Err(Code::INVALID_VALUE);
        }
        let bytes = count.checked_mul(4).ok_or(Code::INVALID_VALUE)?;
        let place = parts.memory.find(to, bytes)?.cast::<u32>();
        for index in 0..count {
            // SAFETY: `place` has room for `count` aligned words: blocks start on page boundaries.
            unsafe { place.add(index).write(value) };
        }
        Ok(())
    })
}
