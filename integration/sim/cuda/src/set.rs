//! `cuMemset…`.

use crate::call::inside;
use crate::codes::{Code, Outcome};
use crate::copy::{rectangle, work};
use crate::span::Span;
use crate::table::Handle;

/// What is repeated: one element of 1, 2 or 4 bytes.
#[derive(Debug, Clone, Copy)]
struct Element {
    bytes: [u8; 4],
    size: usize,
}

impl Element {
    fn of(value: u32, size: usize) -> Element {
        Element { bytes: value.to_le_bytes(), size }
    }

    /// Bytes of so many of them, at a pointer that must be a multiple of their size.
    fn length(&self, to: u64, count: usize) -> Outcome<usize> {
        if !to.is_multiple_of(self.size as u64) {
            return Err(Code::INVALID_VALUE);
        }
        count.checked_mul(self.size).ok_or(Code::INVALID_VALUE)
    }
}

fn set(name: &str, to: u64, element: Element, count: usize, stream: Option<Handle>) -> i32 {
    inside(name, |inside| {
        let length = element.length(to, count)?;
        work(
            inside,
            stream.unwrap_or(0),
            |_| stream.is_some(),
            |parts| {
                let span = parts.memory.span(to, length)?;
                Ok(Box::new(move || span.fill(&element.bytes[..element.size])))
            },
        )
    })
}

fn set_2d(name: &str, to: (u64, usize), element: Element, size: (usize, usize), stream: Option<Handle>) -> i32 {
    let ((to, pitch), (width, height)) = (to, size);
    inside(name, |inside| {
        let row = element.length(to, width)?;
        work(
            inside,
            stream.unwrap_or(0),
            |_| stream.is_some(),
            |parts| {
                let span = parts.memory.span(to, rectangle(pitch, row, height)?)?;
                Ok(Box::new(move || {
                    let rows = if span.len() == 0 { 0 } else { height };
                    for index in 0..rows {
                        Span::of_host(span.start() as usize + index * pitch, row).fill(&element.bytes[..element.size]);
                    }
                }))
            },
        )
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8_v2(to: u64, value: u8, count: usize) -> i32 {
    set("cuMemsetD8_v2", to, Element::of(value.into(), 1), count, None)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD16_v2(to: u64, value: u16, count: usize) -> i32 {
    set("cuMemsetD16_v2", to, Element::of(value.into(), 2), count, None)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD32_v2(to: u64, value: u32, count: usize) -> i32 {
    set("cuMemsetD32_v2", to, Element::of(value, 4), count, None)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: Handle) -> i32 {
    set("cuMemsetD8Async", to, Element::of(value.into(), 1), count, Some(stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: Handle) -> i32 {
    set("cuMemsetD16Async", to, Element::of(value.into(), 2), count, Some(stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD32Async(to: u64, value: u32, count: usize, stream: Handle) -> i32 {
    set("cuMemsetD32Async", to, Element::of(value, 4), count, Some(stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD2D8_v2(to: u64, pitch: usize, value: u8, width: usize, height: usize) -> i32 {
    set_2d("cuMemsetD2D8_v2", (to, pitch), Element::of(value.into(), 1), (width, height), None)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD2D16_v2(to: u64, pitch: usize, value: u16, width: usize, height: usize) -> i32 {
    set_2d("cuMemsetD2D16_v2", (to, pitch), Element::of(value.into(), 2), (width, height), None)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD2D32_v2(to: u64, pitch: usize, value: u32, width: usize, height: usize) -> i32 {
    set_2d("cuMemsetD2D32_v2", (to, pitch), Element::of(value, 4), (width, height), None)
}
