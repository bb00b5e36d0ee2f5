//! `cuEvent…`: points in streams, and when they were reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::call::{call, inside};
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::stream::Mark;
use crate::table::Handle;

/// `CUevent_flags` of cuda.h.
const ALL_FLAGS: u32 = 7;
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

/// One event.
#[derive(Debug)]
pub struct Event {
    /// Its context.
    pub context: Handle,
    flags: u32,
    recorded: Option<Recorded>,
}

#[derive(Debug, Clone)]
struct Recorded {
    mark: Mark,
    /// In nanoseconds of the monotonic clock; 0 before it is reached.
    time: Arc<AtomicU64>,
}

impl Event {
    /// What to wait for; an event that was never recorded is reached.
    pub fn mark(&self) -> Option<Mark> {
        self.recorded.as_ref().map(|recorded| recorded.mark.clone())
    }

    fn is_reached(&self) -> bool {
        self.recorded.as_ref().is_none_or(|recorded| recorded.mark.is_reached())
    }
}

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn event(parts: &Parts, handle: Handle) -> Outcome<&Event> {
    let event = parts.events.get(handle).ok_or(Code::INVALID_HANDLE)?;
    parts.contexts.get(event.context)?.health.check()?;
    Ok(event)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(handle: *mut Handle, flags: u32) -> i32 {
    call("cuEventCreate", |parts| {
        let (context, _) = parts.current()?;
        let between_processes = flags & INTERPROCESS != 0;
        if handle.is_null() || flags & !ALL_FLAGS != 0 || (between_processes && flags & DISABLE_TIMING == 0) {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the C caller gives a place for a CUevent.
        unsafe { give(handle, parts.events.enter(Event { context, flags, recorded: None })) }
    })
}

fn record(name: &str, handle: Handle, stream: Handle, flags: u32) -> i32 {
    inside(name, |inside| {
        let mut parts = inside.parts();
        // CU_EVENT_RECORD_DEFAULT and CU_EVENT_RECORD_EXTERNAL.
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let stream = parts.stream(stream)?;
        if event(&parts, handle)?.context != stream.context {
            return Err(Code::INVALID_HANDLE);
        }
        let time = Arc::<AtomicU64>::default();
        let (before, reached) = (parts.work_before(&stream), Arc::clone(&time));
        let job = move |health: Outcome| {
            reached.store(now(), Ordering::SeqCst);
            health
        };
        let mark = stream.submit(&inside.place, before, Box::new(job))?;
        parts.events.get_mut(handle).ok_or(Code::INVALID_HANDLE)?.recorded = Some(Recorded { mark, time });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(handle: Handle, stream: Handle) -> i32 {
    record("cuEventRecord", handle, stream, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecordWithFlags(handle: Handle, stream: Handle, flags: u32) -> i32 {
    record("cuEventRecordWithFlags", handle, stream, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(handle: Handle) -> i32 {
    call("cuEventQuery", |parts| if event(parts, handle)?.is_reached() { Ok(()) } else { Err(Code::NOT_READY) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(handle: Handle) -> i32 {
    inside("cuEventSynchronize", |inside| {
        let mark = event(&inside.parts(), handle)?.mark();
        mark.map_or(Ok(()), |mark| {
            mark.wait();
            mark.health()
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(handle: Handle) -> i32 {
    call("cuEventDestroy_v2", |parts| parts.events.take(handle).map(drop).ok_or(Code::INVALID_HANDLE))
}

fn elapsed(name: &str, milliseconds: *mut f32, from: Handle, to: Handle) -> i32 {
    call(name, |parts| {
        let time = |handle: Handle| {
            let event = event(parts, handle)?;
            let recorded = event.recorded.as_ref().filter(|_| event.flags & DISABLE_TIMING == 0);
            let recorded = recorded.ok_or(Code::INVALID_HANDLE)?;
            let reached = recorded.mark.is_reached().then(|| recorded.time.load(Ordering::SeqCst));
            Ok::<_, Code>(reached)
        };
        let (Some(from), Some(to)) = (time(from)?, time(to)?) else { return Err(Code::NOT_READY) };
        let nanoseconds = to as i64 - from as i64;
        // SAFETY: the C caller gives a place for a float.
        unsafe { give(milliseconds, (nanoseconds as f64 / 1e6) as f32) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, from: Handle, to: Handle) -> i32 {
    elapsed("cuEventElapsedTime", milliseconds, from, to)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime_v2(milliseconds: *mut f32, from: Handle, to: Handle) -> i32 {
    elapsed("cuEventElapsedTime_v2", milliseconds, from, to)
}
