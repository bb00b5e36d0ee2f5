//! `cuDevicePrimaryCtx…`: the context that all users of a device share.

use crate::call::{call, inside};
use crate::codes::{Code, give};
use crate::context_calls::FLAGS;
use crate::stream::wait_for;
use crate::table::Handle;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: i32) -> i32 {
    call("cuDevicePrimaryCtxRetain", |parts| {
        let slot = parts.slot_of_device(device)?;
        if context.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let handle = match parts.contexts.primary(slot) {
            Some(handle) => {
                let primary = parts.contexts.get_mut(handle)?;
                primary.retained = primary.retained.map(|count| count + 1);
                handle
            }
            None => {
                let flags = parts.contexts.primary_flags.get(&slot).copied().unwrap_or(0);
                parts.make_context(slot, Some(1), flags)?
            }
        };
        // SAFETY: the C caller gives a place for a CUcontext.
        unsafe { give(context, handle) }
    })
}

/// Ends the primary context when `goes` says so, its work done.
fn release(name: &str, device: i32, goes: impl Fn(u32) -> bool) -> i32 {
    inside(name, |inside| {
        let mut parts = inside.parts();
        let slot = parts.slot_of_device(device)?;
        let Some(handle) = parts.contexts.primary(slot) else {
            return if goes(2) { Ok(()) } else { Err(Code::INVALID_CONTEXT) };
        };
        let context = parts.contexts.get_mut(handle)?;
        let count = context.retained.unwrap_or(0);
        context.retained = Some(count.saturating_sub(1));
        if !goes(count) {
            return Ok(());
        }
        let work = parts.work_of(handle);
        drop(parts);
        wait_for(&work);
        inside.parts().end_context(handle)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> i32 {
    release("cuDevicePrimaryCtxRelease_v2", device, |count| count <= 1)
}

/// Ends it whoever still retains it.
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxReset_v2(device: i32) -> i32 {
    release("cuDevicePrimaryCtxReset_v2", device, |_| true)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) -> i32 {
    call("cuDevicePrimaryCtxSetFlags_v2", |parts| {
        let slot = parts.slot_of_device(device)?;
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        parts.contexts.primary_flags.insert(slot, flags);
        if let Some(handle) = parts.contexts.primary(slot) {
            parts.contexts.get_mut(handle)?.flags = flags;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32) -> i32 {
    call("cuDevicePrimaryCtxGetState", |parts| {
        let slot = parts.slot_of_device(device)?;
        let is_active = parts.contexts.primary(slot).is_some();
        // SAFETY: the C caller gives places for an unsigned int and an int.
        unsafe {
            give(flags, parts.contexts.primary_flags.get(&slot).copied().unwrap_or(0))?;
            give(active, i32::from(is_active))
        }
    })
}
