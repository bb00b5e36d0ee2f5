//! `cuMemHost…`: memory of the process that devices reach at the same address. It is the process's own, so it stays where
//! it is when the process is checkpointed.

use std::ffi::c_void;

use crate::call::{call, inside};
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::mapping::Mapping;
use crate::memory::{Pinned, Pinning};
use crate::stream::wait_for;

/// `CU_MEMHOSTALLOC_PORTABLE`, `_DEVICEMAP`, `_WRITECOMBINED`.
const ALLOCATE_FLAGS: u32 = 7;

/// `CU_MEMHOSTREGISTER_PORTABLE`, `_DEVICEMAP`, `_IOMEMORY`, `_READ_ONLY`.
const REGISTER_FLAGS: u32 = 15;

/// Takes host memory for the calling thread's context.
pub fn take(parts: &mut Parts, bytes: usize, flags: u32, how: impl FnOnce(Mapping) -> Pinning) -> Outcome<u64> {
    let (context, _) = parts.current()?;
    if bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mapping = Mapping::of_host(bytes as u64).map_err(|_| Code::OUT_OF_MEMORY)?;
    let address = mapping.at(0, bytes).ok_or(Code::UNKNOWN)? as u64;
    let id = parts.memory.next_id();
    parts.memory.pinned.insert(address, Pinned { context, bytes, flags, pinning: how(mapping), id });
    Ok(address)
}

fn allocate(name: &str, place: *mut *mut c_void, bytes: usize, flags: u32) -> i32 {
    call(name, |parts| {
        if place.is_null() || flags & !ALLOCATE_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let address = take(parts, bytes, flags, Pinning::Allocated)?;
        // SAFETY: the C caller gives a place for a pointer.
        unsafe { give(place, address as *mut c_void) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(place: *mut *mut c_void, bytes: usize, flags: u32) -> i32 {
    allocate("cuMemHostAlloc", place, bytes, flags)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocHost_v2(place: *mut *mut c_void, bytes: usize) -> i32 {
    allocate("cuMemAllocHost_v2", place, bytes, 0)
}

/// Takes host memory back once no work may use it; `missing` is the error when it is of another kind or none.
fn let_go(name: &str, address: *mut c_void, missing: Code, kind: fn(&Pinning) -> bool) -> i32 {
    inside(name, |inside| {
        let address = address as u64;
        let work = {
            let parts = inside.parts();
            parts.current()?;
            let pinned = parts.memory.pinned.get(&address).filter(|pinned| kind(&pinned.pinning));
            parts.work_of(pinned.ok_or(missing)?.context)
        };
        wait_for(&work);
        inside.parts().memory.pinned.remove(&address);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(address: *mut c_void) -> i32 {
    let_go("cuMemFreeHost", address, Code::INVALID_VALUE, |pinning| matches!(pinning, Pinning::Allocated(_)))
}

/// Whether the process has memory in all of that range.
fn is_mapped(address: usize, bytes: usize) -> bool {
    let page = baton_sim_wire::PAGE as usize;
    let start = address / page * page;
    // SAFETY: msync without a flag that does something only looks whether the pages are there.
    address
        .checked_add(bytes)
        .is_some_and(|end| unsafe { libc::msync(start as *mut c_void, end - start, libc::MS_ASYNC) } == 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: u32) -> i32 {
    call("cuMemHostRegister_v2", |parts| {
        let (context, _) = parts.current()?;
        if address.is_null() || bytes == 0 || flags & !REGISTER_FLAGS != 0 || !is_mapped(address as usize, bytes) {
            return Err(Code::INVALID_VALUE);
        }
        if parts.memory.overlaps(address as u64, bytes) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let id = parts.memory.next_id();
        parts.memory.pinned.insert(address as u64, Pinned { context, bytes, flags, pinning: Pinning::Registered, id });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostUnregister(address: *mut c_void) -> i32 {
    let kind = |pinning: &Pinning| matches!(pinning, Pinning::Registered);
    let_go("cuMemHostUnregister", address, Code::HOST_MEMORY_NOT_REGISTERED, kind)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostGetDevicePointer_v2(pointer: *mut u64, address: *mut c_void, flags: u32) -> i32 {
    call("cuMemHostGetDevicePointer_v2", |parts| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        parts.memory.host(address as u64).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the C caller gives a place for a CUdeviceptr.
        unsafe { give(pointer, address as u64) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostGetFlags(flags: *mut u32, address: *mut c_void) -> i32 {
    call("cuMemHostGetFlags", |parts| {
        let (_, pinned) = parts.memory.host(address as u64).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the C caller gives a place for an unsigned int.
        unsafe { give(flags, pinned.flags) }
    })
}
