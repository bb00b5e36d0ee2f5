//! `nvmlSystem…`.

use std::ffi::c_char;
use std::fs;

use crate::codes::{Code, give, give_text};
use crate::library::call;

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetDriverVersion(text: *mut c_char, room: u32) -> i32 {
    // SAFETY: the C caller gives `room` bytes.
    call(|library| unsafe { give_text(text, room, &library.driver) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetNVMLVersion(text: *mut c_char, room: u32) -> i32 {
    // SAFETY: the C caller gives `room` bytes.
    call(|library| unsafe { give_text(text, room, &format!("13.{}", library.driver)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut i32) -> i32 {
    // SAFETY: the C caller gives a place for an int.
    call(|library| unsafe { give(version, library.cuda) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut i32) -> i32 {
    // SAFETY: as for the first version.
    unsafe { nvmlSystemGetCudaDriverVersion(version) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetProcessName(pid: u32, text: *mut c_char, room: u32) -> i32 {
    call(|_| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).map_err(|_| Code::NOT_FOUND)?;
        // SAFETY: the C caller gives `room` bytes.
        unsafe { give_text(text, room, name.trim_end()) }
    })
}
