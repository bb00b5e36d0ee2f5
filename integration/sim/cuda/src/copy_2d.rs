//! `cuMemcpy2D…`: rectangles in memory; arrays are not simulated.

use std::ffi::c_void;
use std::mem::offset_of;

use crate::call::inside;
use crate::codes::{Code, Outcome};
use crate::copy::{End, rectangle, work};
use crate::driver::Parts;
use crate::span::Span;
use crate::table::Handle;

/// `CU_MEMORYTYPE_HOST`, `_DEVICE` and `_UNIFIED`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const UNIFIED: u32 = 4;

/// One side of a `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Side {
    x_bytes: usize,
    y: usize,
    memory: u32,
    host: *const c_void,
    device: u64,
    array: usize,
    pitch: usize,
}

/// `CUDA_MEMCPY2D_v2` of cuda.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Copy2D {
    from: Side,
    to: Side,
    width_bytes: usize,
    height: usize,
}

// As `cuda.h` of CUDA 12.9 and 13.5 lays it out.
const _: () = {
    assert!(size_of::<Copy2D>() == 128 && offset_of!(Copy2D, to) == 56);
    assert!(offset_of!(Copy2D, width_bytes) == 112 && offset_of!(Copy2D, height) == 120);
    assert!(offset_of!(Side, x_bytes) == 0 && offset_of!(Side, y) == 8 && offset_of!(Side, memory) == 16);
    assert!(offset_of!(Side, host) == 24 && offset_of!(Side, device) == 32);
    assert!(offset_of!(Side, array) == 40 && offset_of!(Side, pitch) == 48);
};

impl Side {
    /// The rows, from the first byte that is copied, and how far they lie apart.
    fn rows(&self, parts: &Parts, width: usize, height: usize) -> Outcome<(Span, usize)> {
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        let offset = pitch.checked_mul(self.y).and_then(|rows| rows.checked_add(self.x_bytes));
        let offset = offset.ok_or(Code::INVALID_VALUE)? as u64;
        let end = match self.memory {
            HOST => End::Any((self.host as u64).wrapping_add(offset)),
            DEVICE => End::Device(self.device.wrapping_add(offset)),
            UNIFIED => End::Any(self.device.wrapping_add(offset)),
            _ => return Err(Code::INVALID_VALUE),
        };
        Ok((end.span(parts, rectangle(pitch, width, height)?)?, pitch))
    }
}

fn copy(name: &str, what: *const Copy2D, stream: Option<Handle>) -> i32 {
    inside(name, |inside| {
        if what.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the C caller gives a whole description.
        let Copy2D { from, to, width_bytes, height } = unsafe { what.read() };
        let later = |_: &Parts| stream.is_some() && from.memory == DEVICE && to.memory == DEVICE;
        work(inside, stream.unwrap_or(0), later, |parts| {
            let (from, from_pitch) = from.rows(parts, width_bytes, height)?;
            let (to, to_pitch) = to.rows(parts, width_bytes, height)?;
            Ok(Box::new(move || {
                let rows = if to.len() == 0 { 0 } else { height };
                for row in 0..rows {
                    let row_of =
                        |span: &Span, pitch: usize| Span::of_host(span.start() as usize + row * pitch, width_bytes);
                    row_of(&to, to_pitch).copy_from(&row_of(&from, from_pitch));
                }
            }))
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy2D_v2(what: *const Copy2D) -> i32 {
    copy("cuMemcpy2D_v2", what, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy2DUnaligned_v2(what: *const Copy2D) -> i32 {
    copy("cuMemcpy2DUnaligned_v2", what, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy2DAsync_v2(what: *const Copy2D, stream: Handle) -> i32 {
    copy("cuMemcpy2DAsync_v2", what, Some(stream))
}
