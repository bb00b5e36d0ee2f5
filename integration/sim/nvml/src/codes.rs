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
    pub const NO_PERMISSION: Code = Code(4);
    pub const NOT_FOUND: Code = Code(6);
    pub const INSUFFICIENT_SIZE: Code = Code(7);
    pub const DRIVER_NOT_LOADED: Code = Code(9);
    pub const TIMEOUT: Code = Code(10);
    pub const IN_USE: Code = Code(19);
    pub const ARGUMENT_VERSION_MISMATCH: Code = Code(25);
    pub const UNKNOWN: Code = Code(999);
}

/// The texts of the library, as NVIDIA's Python bindings quote them (`pynvml.py`, `_errcode_to_string`), and the library's
/// own words for the rest.
fn text(code: i32) -> &'static CStr {
    match code {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires restart",
        17 => c"The operating system has blocked the request.",
        18 => c"RM has detected an NVML/RM version mismatch.",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        22 => c"vGPU ECC not supported",
        23 => c"Insufficient Resources",
        24 => c"Frequency not supported",
        25 => c"Argument version mismatch",
        26 => c"Deprecated",
        27 => c"Not ready",
        28 => c"GPU not found",
        29 => c"Invalid state",
        30 => c"Reset type not supported",
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

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: i32) -> *const c_char {
    text(code).as_ptr()
}
