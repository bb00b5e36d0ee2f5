//! `cuCtx…`.

use std::ffi::c_void;
use std::mem::offset_of;

use crate::call::{call, inside};
use crate::codes::{Code, Outcome, code_of, give};
use crate::current;
use crate::driver::{Driver, Parts};
use crate::stream::{GREATEST_PRIORITY, wait_for};
use crate::table::Handle;

/// `CU_CTX_FLAGS_MASK`.
pub const FLAGS: u32 = 0xff;

/// What `cuCtxGetApiVersion` gives for every context.
const API_VERSION: u32 = 3020;

fn create(parts: &mut Parts, flags: u32, device: i32) -> Outcome<Handle> {
    let slot = parts.slot_of_device(device)?;
    if flags & !FLAGS != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let handle = parts.make_context(slot, None, flags)?;
    current::push(handle)?;
    Ok(handle)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v2(context: *mut Handle, flags: u32, device: i32) -> i32 {
    // SAFETY: the C caller gives a place for a CUcontext.
    call("cuCtxCreate_v2", |parts| unsafe { give(context, create(parts, flags, device)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v3(
    context: *mut Handle,
    affinities: *const c_void,
    count: i32,
    flags: u32,
    device: i32,
) -> i32 {
    call("cuCtxCreate_v3", |parts| {
        if !affinities.is_null() || count != 0 {
            return Err(Code::UNSUPPORTED_EXEC_AFFINITY);
        }
        // SAFETY: the C caller gives a place for a CUcontext.
        unsafe { give(context, create(parts, flags, device)?) }
    })
}

/// `CUctxCreateParams` of cuda.h 12.5 and newer.
#[repr(C)]
pub struct CreateParams {
    affinities: *const c_void,
    count: i32,
    graphics: *const c_void,
}

const _: () = {
    assert!(size_of::<CreateParams>() == 24 && offset_of!(CreateParams, affinities) == 0);
    assert!(offset_of!(CreateParams, count) == 8 && offset_of!(CreateParams, graphics) == 16);
};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v4(
    context: *mut Handle,
    params: *const CreateParams,
    flags: u32,
    device: i32,
) -> i32 {
    call("cuCtxCreate_v4", |parts| {
        if !params.is_null() {
            // SAFETY: the C caller gives null or a whole block.
            let params = unsafe { params.read() };
            if !params.affinities.is_null() || params.count != 0 {
                return Err(Code::UNSUPPORTED_EXEC_AFFINITY);
            }
            if !params.graphics.is_null() {
                return Err(Code::NOT_SUPPORTED);
            }
        }
        // SAFETY: the C caller gives a place for a CUcontext.
        unsafe { give(context, create(parts, flags, device)?) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxDestroy_v2(handle: Handle) -> i32 {
    inside("cuCtxDestroy_v2", |inside| {
        let context = inside.parts().contexts.get(handle)?.retained;
        if context.is_some() {
            // A primary context is released, not destroyed.
            return Err(Code::INVALID_CONTEXT);
        }
        let work = inside.parts().work_of(handle);
        wait_for(&work);
        inside.parts().end_context(handle)?;
        if current::top() == Some(handle) {
            current::pop();
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(handle: Handle) -> i32 {
    call("cuCtxSetCurrent", |parts| {
        if handle != 0 {
            parts.contexts.get(handle)?;
        }
        current::replace(handle)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(handle: *mut Handle) -> i32 {
    // SAFETY: the C caller gives a place for a CUcontext.
    code_of(Driver::get().and_then(|_| unsafe { give(handle, current::top().unwrap_or(0)) }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(handle: Handle) -> i32 {
    call("cuCtxPushCurrent_v2", |parts| {
        parts.contexts.get(handle)?;
        current::push(handle)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(handle: *mut Handle) -> i32 {
    call("cuCtxPopCurrent_v2", |_| {
        let popped = current::pop().ok_or(Code::INVALID_CONTEXT)?;
        // SAFETY: the C caller gives null or a place for a CUcontext.
        if handle.is_null() { Ok(()) } else { unsafe { give(handle, popped) } }
    })
}

/// The given context, or the calling thread's for 0.
fn given_or_current(parts: &Parts, handle: Handle) -> Outcome<Handle> {
    if handle == 0 { Ok(parts.current()?.0) } else { parts.contexts.get(handle).map(|_| handle) }
}

fn device_of(parts: &Parts, context: Handle) -> Outcome<i32> {
    parts.device_of_slot(parts.contexts.get(given_or_current(parts, context)?)?.slot)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut i32) -> i32 {
    // SAFETY: the C caller gives a place for a CUdevice.
    call("cuCtxGetDevice", |parts| unsafe { give(device, device_of(parts, 0)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice_v2(device: *mut i32, context: Handle) -> i32 {
    // SAFETY: the C caller gives a place for a CUdevice.
    call("cuCtxGetDevice_v2", |parts| unsafe { give(device, device_of(parts, context)?) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> i32 {
    synchronize("cuCtxSynchronize", 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize_v2(context: Handle) -> i32 {
    synchronize("cuCtxSynchronize_v2", context)
}

fn synchronize(name: &str, context: Handle) -> i32 {
    inside(name, |inside| {
        let parts = inside.parts();
        let context = given_or_current(&parts, context)?;
        let (work, health) = (parts.work_of(context), parts.contexts.get(context)?.health.clone());
        drop(parts);
        wait_for(&work);
        health.check()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetFlags(flags: *mut u32) -> i32 {
    call("cuCtxGetFlags", |parts| {
        let context = parts.current()?.0;
        // SAFETY: the C caller gives a place for an unsigned int.
        unsafe { give(flags, parts.contexts.get(context)?.flags) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetFlags(flags: u32) -> i32 {
    call("cuCtxSetFlags", |parts| {
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let context = parts.current()?.0;
        parts.contexts.get_mut(context)?.flags = flags;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetId(context: Handle, id: *mut u64) -> i32 {
    call("cuCtxGetId", |parts| {
        let context = given_or_current(parts, context)?;
        // SAFETY: the C caller gives a place for an unsigned long long.
        unsafe { give(id, parts.contexts.get(context)?.id) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetApiVersion(context: Handle, version: *mut u32) -> i32 {
    call("cuCtxGetApiVersion", |parts| {
        given_or_current(parts, context)?;
        // SAFETY: the C caller gives a place for an unsigned int.
        unsafe { give(version, API_VERSION) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetLimit(limit: u32, value: usize) -> i32 {
    call("cuCtxSetLimit", |parts| {
        let context = parts.current()?.0;
        parts.contexts.get_mut(context)?.limits.set(limit, value)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetLimit(value: *mut usize, limit: u32) -> i32 {
    call("cuCtxGetLimit", |parts| {
        let context = parts.current()?.0;
        // SAFETY: the C caller gives a place for a size_t.
        unsafe { give(value, parts.contexts.get(context)?.limits.get(limit)?) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCacheConfig(config: u32) -> i32 {
    call("cuCtxSetCacheConfig", |parts| {
        if config > 3 {
            return Err(Code::INVALID_VALUE);
        }
        let context = parts.current()?.0;
        parts.contexts.get_mut(context)?.cache = config;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCacheConfig(config: *mut u32) -> i32 {
    call("cuCtxGetCacheConfig", |parts| {
        let context = parts.current()?.0;
        // SAFETY: the C caller gives a place for a CUfunc_cache.
        unsafe { give(config, parts.contexts.get(context)?.cache) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) -> i32 {
    call("cuCtxGetStreamPriorityRange", |parts| {
        parts.current()?;
        for (place, value) in [(least, 0), (greatest, GREATEST_PRIORITY)] {
            if !place.is_null() {
                // SAFETY: not null, and the C caller gives a place for an int.
                unsafe { give(place, value)? };
            }
        }
        Ok(())
    })
}
