//! `cuMemPool…`: pools of memory for stream-ordered allocations. Memory that is freed goes back to the card at once, so a
//! pool holds what its allocations hold.

use std::ffi::c_void;

use crate::allocation::allocate_async;
use crate::call::call;
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::table::{Handle, Table};

/// `CUmemPool_attribute`: reuse flags 1 to 3 are ints, all others 64 bits wide.
const REUSE: std::ops::RangeInclusive<u32> = 1..=3;
const RELEASE_THRESHOLD: u32 = 4;
const RESERVED: u32 = 5;
const RESERVED_HIGH: u32 = 6;
const USED: u32 = 7;
const USED_HIGH: u32 = 8;

/// One pool.
#[derive(Debug)]
struct Pool {
    slot: usize,
    reuse: [i32; 3],
    release_threshold: u64,
}

/// The pools of the process: one for each device to begin with.
#[derive(Debug)]
pub struct Pools {
    all: Table<Pool>,
    of_slots: Vec<Handle>,
}

impl Pools {
    /// The default pool of each slot.
    pub fn of(slots: usize) -> Pools {
        let mut all = Table::of_kind(8);
        let of_slots = (0..slots).map(|slot| all.enter(Pool { slot, reuse: [1; 3], release_threshold: 0 })).collect();
        Pools { all, of_slots }
    }

    /// The default pool of a slot.
    pub fn of_slot(&self, slot: usize) -> Outcome<Handle> {
        self.of_slots.get(slot).copied().ok_or(Code::INVALID_DEVICE)
    }
}

fn default_pool(name: &str, pool: *mut Handle, device: i32) -> i32 {
    call(name, |parts| {
        let found = parts.pools.of_slot(parts.slot_of_device(device)?)?;
        // SAFETY: the C caller gives a place for a CUmemoryPool.
        unsafe { give(pool, found) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut Handle, device: i32) -> i32 {
    default_pool("cuDeviceGetDefaultMemPool", pool, device)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetMemPool(pool: *mut Handle, device: i32) -> i32 {
    default_pool("cuDeviceGetMemPool", pool, device)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocFromPoolAsync(pointer: *mut u64, bytes: usize, pool: Handle, stream: Handle) -> i32 {
    call("cuMemAllocFromPoolAsync", |parts| {
        let slot = parts.pools.all.get(pool).ok_or(Code::INVALID_VALUE)?.slot;
        if slot != parts.current()?.1 {
            return Err(Code::INVALID_VALUE);
        }
        allocate_async(parts, pointer, bytes, pool, stream)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemPoolTrimTo(pool: Handle, _keep: usize) -> i32 {
    call("cuMemPoolTrimTo", |parts| parts.pools.all.get(pool).map(drop).ok_or(Code::INVALID_VALUE))
}

fn held(parts: &Parts, pool: Handle) -> u64 {
    parts.memory.blocks.values().filter(|block| block.pool == Some(pool)).map(|block| block.bytes).sum()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolGetAttribute(pool: Handle, attribute: u32, value: *mut c_void) -> i32 {
    call("cuMemPoolGetAttribute", |parts| {
        let found = parts.pools.all.get(pool).ok_or(Code::INVALID_VALUE)?;
        let wide = match attribute {
            RELEASE_THRESHOLD => found.release_threshold,
            RESERVED | RESERVED_HIGH | USED | USED_HIGH => held(parts, pool),
            attribute if REUSE.contains(&attribute) => {
                // SAFETY: the C caller gives a place for an int.
                return unsafe { give(value.cast(), found.reuse[attribute as usize - 1]) };
            }
            _ => return Err(Code::INVALID_VALUE),
        };
        // SAFETY: the C caller gives a place for a cuuint64_t.
        unsafe { give(value.cast(), wide) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolSetAttribute(pool: Handle, attribute: u32, value: *mut c_void) -> i32 {
    call("cuMemPoolSetAttribute", |parts| {
        let found = parts.pools.all.get_mut(pool).ok_or(Code::INVALID_VALUE)?;
        if value.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        match attribute {
            // SAFETY: the C caller gives a cuuint64_t.
            RELEASE_THRESHOLD => found.release_threshold = unsafe { value.cast::<u64>().read() },
            // The high watermarks may be set to zero only.
            // SAFETY: as above.
            RESERVED_HIGH | USED_HIGH if unsafe { value.cast::<u64>().read() } == 0 => {}
            attribute if REUSE.contains(&attribute) => {
                // SAFETY: the C caller gives an int.
                found.reuse[attribute as usize - 1] = unsafe { value.cast::<i32>().read() };
            }
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    })
}
