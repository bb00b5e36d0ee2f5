//! `cuGetProcAddress`: functions by name and by the CUDA version that a program was built for.

use std::ffi::{CStr, c_char, c_void};

use crate::codes::{Code, code_of, give};
use crate::init::cuda_version;
use crate::symbols::{SYMBOLS, Symbol};

/// `CUdriverProcAddressQueryResult` of cuda.h.
const FOUND: i32 = 0;
const NOT_FOUND: i32 = 1;
const VERSION_NOT_SUFFICIENT: i32 = 2;

/// `CU_GET_PROC_ADDRESS_LEGACY_STREAM` and `_PER_THREAD_DEFAULT_STREAM`. There are no functions of their own for the
/// second: it finds those of the legacy stream, as cuda.h says of functions without such a variant.
const ALL_FLAGS: u64 = 3;

/// The newest variant that the driver has and that a program of version `asked` knows.
fn find(name: &CStr, asked: i32, driver: i32) -> Result<&'static Symbol, i32> {
    let variants =
        || SYMBOLS.iter().filter(|symbol| symbol.name.as_bytes() == name.to_bytes() && symbol.since <= driver);
    let known = variants().filter(|symbol| symbol.since <= asked).max_by_key(|symbol| symbol.since);
    known.ok_or(if variants().next().is_some() { VERSION_NOT_SUFFICIENT } else { NOT_FOUND })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress(
    name: *const c_char,
    function: *mut *const c_void,
    asked: i32,
    flags: u64,
) -> i32 {
    // SAFETY: the pointers are passed on as given; the status is not wanted.
    unsafe { cuGetProcAddress_v2(name, function, asked, flags, std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    function: *mut *const c_void,
    asked: i32,
    flags: u64,
    status: *mut i32,
) -> i32 {
    let driver = cuda_version();
    if name.is_null() || function.is_null() || flags & !ALL_FLAGS != 0 || asked > driver {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: not null, and the C caller gives a NUL-terminated name.
    let found = find(unsafe { CStr::from_ptr(name) }, asked, driver);
    let outcome = *found.as_ref().err().unwrap_or(&FOUND);
    if !status.is_null() {
        // SAFETY: not null, and the C caller gives a place for the status.
        unsafe { status.write(outcome) };
    }
    // What is not found is null and no error (cuda.h).
    // SAFETY: the C caller gives a place for a pointer.
    code_of(unsafe { give(function, found.map_or(std::ptr::null(), |symbol| symbol.address)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_the_variant_of_its_time() {
        let found = |name, asked, driver| find(name, asked, driver).map(|symbol| symbol.symbol);
        assert_eq!(found(c"cuMemAlloc", 12000, 13000), Ok("cuMemAlloc_v2"));
        assert_eq!(found(c"cuMemAlloc", 3000, 13000), Err(VERSION_NOT_SUFFICIENT));
        assert_eq!(found(c"cuCtxCreate", 12040, 13000), Ok("cuCtxCreate_v3"));
        assert_eq!(found(c"cuCtxCreate", 13000, 13000), Ok("cuCtxCreate_v4"));
        assert_eq!(found(c"cuCtxCreate", 13000, 12040), Ok("cuCtxCreate_v3"), "the driver is older than the program");
        assert_eq!(found(c"cuCheckpointProcessLock", 12080, 12080), Ok("cuCheckpointProcessLock"));
        assert_eq!(found(c"cuCheckpointProcessLock", 12070, 12070), Err(NOT_FOUND));
        assert_eq!(found(c"cuMakeCoffee", 13000, 13000), Err(NOT_FOUND));
        assert_eq!(found(c"cuMemAlloc_v2", 13000, 13000), Err(NOT_FOUND), "names are without the version");
    }
}
