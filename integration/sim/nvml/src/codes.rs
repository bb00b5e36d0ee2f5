//! `nvmlReturn_t`.

use std::ffi::{CStr, c_char};

/// A result that is not success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i32);

/// The outcome of a call.
pub type Outcome<T = ()> = Result<T, Code>;

impl Code {
    pub const UNINITIALIZED: Code = Code(1);
    pub const INVALID_ARGUMENT: Code = Code(2);
    pub const NOT_SUPPORTED: Code = Code(3);
    pub const NOT_FOUND: Code = Code(6);
    pub const INSUFFICIENT_SIZE: Code = Code(7);
    pub const DRIVER_NOT_LOADED: Code = Code(9);
    pub const ARGUMENT_VERSION_MISMATCH: Code = Code(25);
    pub const UNKNOWN: Code = Code(999);
}

fn text(code: i32) -> &'static CStr {
    match code {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        9 => c"Driver Not Loaded",
        25 => c"Argument Version Mismatch",
        _ => c"Unknown Error",
    }
}

/// What a C caller gets.
pub fn code_of(outcome: Outcome) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(code) => code.0,
    }
}

/// Writes through a pointer that a C caller gave.
///
/// # Safety
///
/// `to` must be null or valid for a write.
pub unsafe fn give<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: not null, and the caller of the C function promises that it may be written.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes `text` and a NUL into the `room` bytes at `to`, all or nothing.
///
/// # Safety
///
/// `to` must be null or valid for `room` bytes.
pub unsafe fn give_text(to: *mut c_char, room: u32, text: &str) -> Outcome {
    if to.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    if text.len() + 1 > room as usize {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    // SAFETY: text and NUL fit into the room.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: i32) -> *const c_char {
    text(code).as_ptr()
}
