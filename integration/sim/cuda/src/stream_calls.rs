//! `cuStream…` and functions of the host in a stream.

use std::ffi::c_void;
use std::sync::Arc;

use crate::call::{call, inside};
use crate::codes::{Code, Outcome, code_of, give};
use crate::stream::{GREATEST_PRIORITY, NON_BLOCKING, Stream, wait_for};
use crate::table::Handle;

/// `CU_STREAM_CAPTURE_STATUS_NONE`: graphs are not simulated, so nothing is ever captured.
const NOT_CAPTURING: u32 = 0;

fn create(name: &str, stream: *mut Handle, flags: u32, priority: i32) -> i32 {
    call(name, |parts| {
        let (context, _) = parts.current()?;
        if stream.is_null() || flags & !NON_BLOCKING != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let health = Arc::clone(&parts.contexts.get(context)?.health);
        // A priority out of range is cut to it (cuda.h).
        let new = Stream::new(context, flags, priority.clamp(GREATEST_PRIORITY, 0), health);
        // SAFETY: the C caller gives a place for a CUstream.
        unsafe { give(stream, parts.streams.enter(new)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, flags: u32) -> i32 {
    create("cuStreamCreate", stream, flags, 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut Handle, flags: u32, priority: i32) -> i32 {
    create("cuStreamCreateWithPriority", stream, flags, priority)
}

/// Work that was submitted is still done.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: Handle) -> i32 {
    call("cuStreamDestroy_v2", |parts| {
        parts.streams.take(stream).ok_or(Code::INVALID_HANDLE)?.close();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(stream: Handle) -> i32 {
    call("cuStreamQuery", |parts| {
        let stream = parts.stream(stream)?;
        if parts.work_until(&stream).is_empty() { Ok(()) } else { Err(Code::NOT_READY) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: Handle) -> i32 {
    inside("cuStreamSynchronize", |inside| {
        let mut parts = inside.parts();
        let stream = parts.stream(stream)?;
        let work = parts.work_until(&stream);
        drop(parts);
        wait_for(&work);
        stream.health.check()
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) -> i32 {
    inside("cuStreamWaitEvent", |inside| {
        let mut parts = inside.parts();
        // CU_EVENT_WAIT_DEFAULT and CU_EVENT_WAIT_EXTERNAL.
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let stream = parts.stream(stream)?;
        let recorded = parts.events.get(event).ok_or(Code::INVALID_HANDLE)?.mark();
        let Some(recorded) = recorded else { return Ok(()) };
        let mut before = parts.work_before(&stream);
        before.push(recorded);
        stream.submit(&inside.place, before, Box::new(|health| health)).map(drop)
    })
}

/// `CUhostFn`.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// `CUstreamCallback`.
pub type Callback = unsafe extern "C" fn(Handle, i32, *mut c_void);

/// A function of the program in the order of a stream; it is not called any more once the context is broken.
fn launch_host(name: &str, stream: Handle, function: Option<HostFunction>, data: *mut c_void) -> i32 {
    inside(name, |inside| {
        let function = function.ok_or(Code::INVALID_VALUE)?;
        let mut parts = inside.parts();
        let stream = parts.stream(stream)?;
        let (before, data) = (parts.work_before(&stream), data as usize);
        let job = move |health: Outcome| {
            health?;
            // SAFETY: the program gives a function and what it takes, both good until the stream has come to it.
            unsafe { function(data as *mut c_void) };
            Ok(())
        };
        stream.submit(&inside.place, before, Box::new(job)).map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc(stream: Handle, function: Option<HostFunction>, data: *mut c_void) -> i32 {
    launch_host("cuLaunchHostFunc", stream, function, data)
}

/// `sync_mode` says how the stream waits for the function; it waits the same way here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc_v2(
    stream: Handle,
    function: Option<HostFunction>,
    data: *mut c_void,
    _sync_mode: u32,
) -> i32 {
    launch_host("cuLaunchHostFunc_v2", stream, function, data)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamAddCallback(
    stream: Handle,
    callback: Option<Callback>,
    data: *mut c_void,
    flags: u32,
) -> i32 {
    inside("cuStreamAddCallback", |inside| {
        let callback = callback.filter(|_| flags == 0).ok_or(Code::INVALID_VALUE)?;
        let mut parts = inside.parts();
        let found = parts.stream(stream)?;
        let (before, data) = (parts.work_before(&found), data as usize);
        let job = move |health: Outcome| {
            // SAFETY: the program gives a function and what it takes, both good until the stream has come to it.
            unsafe { callback(stream, code_of(health), data as *mut c_void) };
            health
        };
        found.submit(&inside.place, before, Box::new(job)).map(drop)
    })
}

fn fact<T>(name: &str, stream: Handle, to: *mut T, fact: impl FnOnce(&Stream) -> T) -> i32 {
    call(name, |parts| {
        let stream = parts.stream(stream)?;
        // SAFETY: the C caller gives a place for that kind of fact.
        unsafe { give(to, fact(&stream)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetFlags(stream: Handle, flags: *mut u32) -> i32 {
    fact("cuStreamGetFlags", stream, flags, |stream| stream.flags)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetPriority(stream: Handle, priority: *mut i32) -> i32 {
    fact("cuStreamGetPriority", stream, priority, |stream| stream.priority)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetId(stream: Handle, id: *mut u64) -> i32 {
    fact("cuStreamGetId", stream, id, |stream| stream.id)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCtx(stream: Handle, context: *mut Handle) -> i32 {
    fact("cuStreamGetCtx", stream, context, |stream| stream.context)
}

/// No stream belongs to a green context here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCtx_v2(stream: Handle, context: *mut Handle, green: *mut Handle) -> i32 {
    call("cuStreamGetCtx_v2", |parts| {
        let found = parts.stream(stream)?.context;
        // SAFETY: the C caller gives places for a CUcontext and a CUgreenCtx.
        unsafe { give(context, found).and_then(|()| give(green, 0)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetDevice(stream: Handle, device: *mut i32) -> i32 {
    call("cuStreamGetDevice", |parts| {
        let context = parts.stream(stream)?.context;
        let found = parts.device_of_slot(parts.contexts.get(context)?.slot)?;
        // SAFETY: the C caller gives a place for a CUdevice.
        unsafe { give(device, found) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: Handle, status: *mut u32) -> i32 {
    fact("cuStreamIsCapturing", stream, status, |_| NOT_CAPTURING)
}
