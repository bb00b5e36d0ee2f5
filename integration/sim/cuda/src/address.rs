//! `cuMemAddressReserve`, `cuMemMap`, `cuMemSetAccess` and their opposites: addresses first, memory behind them later.

use std::os::fd::AsFd;

use baton_sim_wire::PAGE;

use crate::call::{call, inside};
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::memory::Place;
use crate::physical::{let_go_if_unused, live};
use crate::properties::{Access, Location};
use crate::reservation::{GRANULARITY, Mapped};
use crate::stream::wait_for;
use crate::table::Handle;

/// The hint where the range should be is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressReserve(
    pointer: *mut u64,
    bytes: usize,
    alignment: usize,
    hint: u64,
    flags: u64,
) -> i32 {
    call("cuMemAddressReserve", |parts| {
        let (bytes, alignment) = (bytes as u64, alignment as u64);
        let is_aligned = bytes.is_multiple_of(PAGE) && hint.is_multiple_of(PAGE);
        let is_power = alignment == 0 || alignment.is_power_of_two();
        if pointer.is_null() || bytes == 0 || !is_aligned || !is_power || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the C caller gives a place for a CUdeviceptr.
        unsafe { give(pointer, parts.memory.reservations.reserve(bytes, alignment)?) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAddressFree(pointer: u64, bytes: usize) -> i32 {
    call("cuMemAddressFree", |parts| parts.memory.reservations.free(pointer, bytes as u64))
}

fn map(parts: &mut Parts, pointer: u64, bytes: u64, handle: Handle) -> Outcome {
    let place = live(parts, handle)?.block;
    let block = parts.memory.blocks.get(&place).ok_or(Code::UNKNOWN)?;
    let Place::Card { offset, .. } = block.place else { return Err(Code::ILLEGAL_STATE) };
    if bytes > block.bytes {
        return Err(Code::INVALID_VALUE);
    }
    let card = parts.session()?.memory(parts.slots[block.slot].device())?;
    let mapped = Mapped::of(handle, bytes, parts.memory.next_id());
    parts.memory.reservations.map(pointer, mapped, card.as_fd(), offset)?;
    live(parts, handle)?.mappings += 1;
    Ok(())
}

/// The offset in the memory must be zero, as cuda.h says.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemMap(pointer: u64, bytes: usize, offset: usize, handle: Handle, flags: u64) -> i32 {
    call("cuMemMap", |parts| {
        let (bytes, is_whole) = (bytes as u64, |number: u64| number.is_multiple_of(GRANULARITY));
        if bytes == 0 || !is_whole(bytes) || !is_whole(pointer) || offset != 0 || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        map(parts, pointer, bytes, handle)
    })
}

/// Takes away all mappings in a range, which must hold them whole, once no work may use them.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemUnmap(pointer: u64, bytes: usize) -> i32 {
    inside("cuMemUnmap", |inside| {
        let work = {
            let parts = inside.parts();
            parts.memory.reservations.whole(pointer, bytes as u64)?;
            parts.all_work()
        };
        wait_for(&work);
        let mut parts = inside.parts();
        for start in parts.memory.reservations.whole(pointer, bytes as u64)? {
            let handle = parts.memory.reservations.unmap(start)?.memory;
            parts.memory.physical.get_mut(handle).ok_or(Code::UNKNOWN)?.mappings -= 1;
            let_go_if_unused(&mut parts, handle)?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemSetAccess(pointer: u64, bytes: usize, wanted: *const Access, count: usize) -> i32 {
    call("cuMemSetAccess", |parts| {
        if wanted.is_null() || count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let mappings = parts.memory.reservations.whole(pointer, bytes as u64)?;
        // SAFETY: not null, and the C caller gives as many as it says.
        let wanted = (0..count).map(|index| unsafe { wanted.add(index).read() }.checked(parts));
        let wanted = wanted.collect::<Outcome<Vec<_>>>()?;
        for (slot, flags) in wanted {
            mappings.iter().for_each(|start| parts.memory.reservations.grant(*start, slot, flags));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAccess(flags: *mut u64, location: *const Location, pointer: u64) -> i32 {
    call("cuMemGetAccess", |parts| {
        if location.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the C caller gives a whole description.
        let slot = unsafe { location.read() }.slot(parts)?;
        let (_, mapped) = parts.memory.reservations.mapping(pointer).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the C caller gives a place for an unsigned long long.
        unsafe { give(flags, u64::from(mapped.access(slot))) }
    })
}
