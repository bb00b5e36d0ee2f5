//! `cuMemcpy…`.
//!
//! A copy without a stream is made by the calling thread, at its place in the legacy default stream. So is one in a stream
//! from or to ordinary host memory, which the program may use again when the call returns; all others are made by the
//! stream's thread.

use std::ffi::c_void;

use crate::call::{Inside, inside};
use crate::codes::{Code, Outcome};
use crate::driver::Parts;
use crate::span::Span;
use crate::stream::wait_for;
use crate::table::Handle;

/// One side of a copy.
#[derive(Debug, Clone, Copy)]
pub enum End {
    /// Memory that devices reach.
    Device(u64),
    /// Memory of any kind.
    Any(u64),
}

impl End {
    fn host(pointer: *const c_void) -> End {
        End::Any(pointer as u64)
    }

    fn pointer(self) -> u64 {
        match self {
            End::Device(pointer) | End::Any(pointer) => pointer,
        }
    }

    /// Its `length` bytes.
    pub fn span(self, parts: &Parts, length: usize) -> Outcome<Span> {
        match self {
            End::Device(pointer) => parts.memory.span(pointer, length),
            End::Any(pointer) => parts.memory.any_span(pointer, length),
        }
    }
}

/// Works on memory at the place of a stream: in its thread if `later`, else here.
pub fn work(
    inside: &Inside,
    stream: Handle,
    later: impl FnOnce(&Parts) -> bool,
    prepare: impl FnOnce(&Parts) -> Outcome<Box<dyn FnOnce() + Send>>,
) -> Outcome {
    let mut parts = inside.parts();
    let stream = parts.stream(stream)?;
    let work = prepare(&parts)?;
    if later(&parts) {
        let before = parts.work_before(&stream);
        let job = move |health: Outcome| health.map(|()| work());
        return stream.submit(&inside.place, before, Box::new(job)).map(drop);
    }
    let before = parts.work_until(&stream);
    drop(parts);
    wait_for(&before);
    stream.health.check()?;
    work();
    Ok(())
}

/// Copies at the place of a stream; `None`: as a call that returns when it is done.
fn copy(name: &str, to: End, from: End, bytes: usize, stream: Option<Handle>) -> i32 {
    inside(name, |inside| {
        let reached = |parts: &Parts, end: End| parts.memory.is_reached(end.pointer(), bytes);
        let later = |parts: &Parts| stream.is_some() && reached(parts, to) && reached(parts, from);
        work(inside, stream.unwrap_or(0), later, |parts| {
            let (to, from) = (to.span(parts, bytes)?, from.span(parts, bytes)?);
            Ok(Box::new(move || to.copy_from(&from)))
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> i32 {
    copy("cuMemcpyHtoD_v2", End::Device(to), End::host(from), bytes, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> i32 {
    copy("cuMemcpyDtoH_v2", End::host(to), End::Device(from), bytes, None)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> i32 {
    copy("cuMemcpyDtoD_v2", End::Device(to), End::Device(from), bytes, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy(to: u64, from: u64, bytes: usize) -> i32 {
    copy("cuMemcpy", End::Any(to), End::Any(from), bytes, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) -> i32 {
    copy("cuMemcpyHtoDAsync_v2", End::Device(to), End::host(from), bytes, Some(stream))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) -> i32 {
    copy("cuMemcpyDtoHAsync_v2", End::host(to), End::Device(from), bytes, Some(stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> i32 {
    copy("cuMemcpyDtoDAsync_v2", End::Device(to), End::Device(from), bytes, Some(stream))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) -> i32 {
    copy("cuMemcpyAsync", End::Any(to), End::Any(from), bytes, Some(stream))
}

/// Both contexts must be there; with unified addresses they say nothing more.
fn copy_peer(name: &str, ends: [(u64, Handle); 2], bytes: usize, stream: Option<Handle>) -> i32 {
    let [(to, to_context), (from, from_context)] = ends;
    let known = inside(name, |inside| {
        let parts = inside.parts();
        parts.contexts.get(to_context).and(parts.contexts.get(from_context)).map(drop)
    });
    if known != 0 {
        return known;
    }
    copy(name, End::Device(to), End::Device(from), bytes, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyPeer(to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize) -> i32 {
    copy_peer("cuMemcpyPeer", [(to, to_context), (from, from_context)], bytes, None)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: Handle,
    from: u64,
    from_context: Handle,
    bytes: usize,
    stream: Handle,
) -> i32 {
    copy_peer("cuMemcpyPeerAsync", [(to, to_context), (from, from_context)], bytes, Some(stream))
}

/// A rectangle is bytes in rows: an overflow of its measures is an invalid value.
pub fn rectangle(pitch: usize, width: usize, height: usize) -> Outcome<usize> {
    if height == 0 || width == 0 {
        return Ok(0);
    }
    let rows = pitch.checked_mul(height - 1).and_then(|rows| rows.checked_add(width));
    rows.filter(|_| width <= pitch || height == 1).ok_or(Code::INVALID_VALUE)
}
