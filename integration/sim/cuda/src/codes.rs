//! `CUresult`.

use std::ffi::{CStr, c_char};

/// A result that is not success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i32);

/// The outcome of a driver call.
pub type Outcome<T = ()> = Result<T, Code>;

macro_rules! codes {
    ($($name:ident = $value:literal, $symbol:literal, $text:literal;)*) => {
        impl Code {
            $(#[allow(dead_code)] pub const $name: Code = Code($value);)*
        }

        fn texts(code: i32) -> Option<(&'static CStr, &'static CStr)> {
            match code {
                0 => Some((c"CUDA_SUCCESS", c"no error")),
                $($value => Some(($symbol, $text)),)*
                _ => None,
            }
        }
    };
}

codes! {
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    OPERATING_SYSTEM = 304, c"CUDA_ERROR_OPERATING_SYSTEM", c"OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    ILLEGAL_STATE = 401, c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed in the present state";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    NOT_READY = 600, c"CUDA_ERROR_NOT_READY", c"device not ready";
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered";
    NOT_PERMITTED = 800, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted";
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    UNKNOWN = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
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
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller of the C function promises that it may be written.
    unsafe { to.write(value) };
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: i32, name: *mut *const c_char) -> i32 {
    // SAFETY: the C caller gives a place for a pointer.
    code_of(unsafe { give(name, texts(error).map_or(std::ptr::null(), |(name, _)| name.as_ptr())) }).max(unknown(error))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: i32, text: *mut *const c_char) -> i32 {
    // SAFETY: the C caller gives a place for a pointer.
    code_of(unsafe { give(text, texts(error).map_or(std::ptr::null(), |(_, text)| text.as_ptr())) }).max(unknown(error))
}

fn unknown(error: i32) -> i32 {
    if texts(error).is_some() { 0 } else { Code::INVALID_VALUE.0 }
}
