//! Small calls that belong to nothing else.

use std::ffi::c_void;

use crate::call::call;
use crate::codes::{Code, code_of, give};

/// Tables of functions that NVIDIA's own libraries use: none here, as for an unknown table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetExportTable(table: *mut *const c_void, _id: *const [u8; 16]) -> i32 {
    // SAFETY: the C caller gives a place for a pointer.
    code_of(unsafe { give(table, std::ptr::null()) }.and(Err(Code::NOT_SUPPORTED)))
}

/// Nobody profiles.
#[unsafe(no_mangle)]
pub extern "C" fn cuProfilerStart() -> i32 {
    call("cuProfilerStart", |parts| parts.current().map(drop))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuProfilerStop() -> i32 {
    call("cuProfilerStop", |parts| parts.current().map(drop))
}
