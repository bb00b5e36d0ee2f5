//! `cuGetProcAddress`: functions by name and by the CUDA version that a program was built for.

mod per_thread;

use std::ffi::{CStr, c_char, c_void};

use crate::codes::{Code, code_of, give};
use crate::init::cuda_version;
use crate::symbols::{SYMBOLS, Symbol};

/// `CUdriverProcAddressQueryResult` of cuda.h.
const FOUND: i32 = 0;
const NOT_FOUND: i32 = 1;
const VERSION_NOT_SUFFICIENT: i32 = 2;

/// `CU_GET_PROC_ADDRESS_LEGACY_STREAM` and `_PER_THREAD_DEFAULT_STREAM`.
const ALL_FLAGS: u64 = 3;
/// The second of them.
const PER_THREAD: u64 = 2;

/// The newest variant that the driver has and that a program of version `asked` knows. Where it wants those of the thread's
/// own stream and there is none, it gets the legacy stream's (cuda.h).
fn find(name: &CStr, asked: i32, driver: i32, flags: u64) -> Result<&'static Symbol, i32> {
    let among = |all: &'static [Symbol]| {
        all.iter().filter(|symbol| symbol.name.as_bytes() == name.to_bytes() && symbol.since <= driver)
    };
    let newest = |all| among(all).filter(|symbol| symbol.since <= asked).max_by_key(|symbol| symbol.since);
    let own = Some(per_thread::VARIANTS).filter(|_| flags & PER_THREAD != 0).and_then(newest);
    let missing = if among(SYMBOLS).next().is_some() { VERSION_NOT_SUFFICIENT } else { NOT_FOUND };
    own.or_else(|| newest(SYMBOLS)).ok_or(missing)
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
    let found = find(unsafe { CStr::from_ptr(name) }, asked, driver, flags);
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
        let found = |name, asked, driver| find(name, asked, driver, 0).map(|symbol| symbol.symbol);
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

    #[test]
    fn a_program_that_wants_its_threads_own_streams_gets_them_where_there_are_any() {
        let found = |name, asked, flags| find(name, asked, 13000, flags).map(|symbol| symbol.symbol);
        assert_eq!(found(c"cuMemcpyHtoD", 12000, 2), Ok("cuMemcpyHtoD_v2_ptds"));
        assert_eq!(found(c"cuMemcpyHtoD", 12000, 1), Ok("cuMemcpyHtoD_v2"));
        assert_eq!(found(c"cuMemcpyHtoD", 6050, 2), Ok("cuMemcpyHtoD_v2"), "they came with CUDA 7");
        assert_eq!(found(c"cuStreamGetCtx", 12040, 2), Ok("cuStreamGetCtx_ptsz"));
        assert_eq!(found(c"cuStreamGetCtx", 12050, 2), Ok("cuStreamGetCtx_v2_ptsz"));
        assert_eq!(found(c"cuMemAlloc", 12000, 2), Ok("cuMemAlloc_v2"), "it works in no stream");
    }

    #[test]
    fn every_variant_is_one_of_a_function_that_is_there() {
        for variant in per_thread::VARIANTS {
            let base = variant.symbol.trim_end_matches("_ptsz").trim_end_matches("_ptds");
            let symbol = SYMBOLS.iter().find(|symbol| symbol.symbol == base).expect(base);
            assert_eq!(variant.name, symbol.name);
            // Those of functions that are older than CUDA 7 came with it.
            assert_eq!(variant.since, symbol.since.max(7000), "{base}");
        }
        assert_eq!(per_thread::VARIANTS.len(), COUNT);
    }

    /// Those of `cudaTypedefs.h` 13.5 whose functions are simulated.
    const COUNT: usize = 43;
}
