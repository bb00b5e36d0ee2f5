//! `cuGetProcAddress`.

use std::ffi::{CStr, CString, c_char, c_void};

use crate::codes::{Code, code_of, give};

const FOUND: i32 = 0;
const NOT_FOUND: i32 = 1;

/// The newest version of a function of this library.
fn find(name: &CStr) -> *mut c_void {
    // SAFETY: an all-zero Dl_info is valid and dladdr only fills it.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is one of this library's own functions.
    if unsafe { libc::dladdr(cuGetProcAddress as *const c_void, &raw mut info) } == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the name is the one the library was loaded by; NOLOAD only finds it again.
    let this = unsafe { libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    if this.is_null() {
        return std::ptr::null_mut();
    }
    let mut found: *mut c_void = std::ptr::null_mut();
    for suffix in ["_v2", ""] {
        let mut versioned = name.to_bytes().to_vec();
        versioned.extend_from_slice(suffix.as_bytes());
        if let Ok(versioned) = CString::new(versioned)
            && found.is_null()
        {
            // SAFETY: the handle is open and the name NUL-terminated.
            found = unsafe { libc::dlsym(this, versioned.as_ptr()) };
        }
    }
    // SAFETY: gives back the reference that dlopen took.
    unsafe { libc::dlclose(this) };
    found
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> i32 {
    // SAFETY: the pointers are passed on as given; the status is not wanted.
    unsafe { cuGetProcAddress_v2(symbol, function, version, flags, std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    function: *mut *mut c_void,
    _version: i32,
    _flags: u64,
    status: *mut i32,
) -> i32 {
    if symbol.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: the C caller gives a NUL-terminated name.
    let found = find(unsafe { CStr::from_ptr(symbol) });
    let missing = found.is_null();
    if !status.is_null() {
        // SAFETY: not null, and the C caller gives a place for the status.
        unsafe { status.write(if missing { NOT_FOUND } else { FOUND }) };
    }
    // SAFETY: the C caller gives a place for a pointer.
    let given = code_of(unsafe { give(function, found) });
    if given != 0 {
        given
    } else if missing {
        Code::NOT_FOUND.0
    } else {
        0
    }
}
