//! Which functions the libraries of each driver version have. Needs root, to make device nodes.

mod machine;

use std::ffi::{CStr, CString, c_void};

use machine::Machine;
use machine::api::Api;

/// Drivers, and the CUDA version that each speaks.
const DRIVERS: [(&str, i32); 10] = [
    ("550.54.14", 12040),
    ("555.42.06", 12050),
    ("560.35.05", 12060),
    ("565.57.01", 12070),
    ("570.86.10", 12080),
    ("575.57.08", 12090),
    ("580.95.05", 13000),
    ("590.44.01", 13010),
    ("595.45.04", 13020),
    ("610.10", 13030),
];

/// Functions of libcuda, and the CUDA version that brought each (`cudaTypedefs.h`).
const OF_LIBCUDA: [(&str, i32); 18] = [
    ("cuCheckpointProcessCheckpoint", 12080),
    ("cuCheckpointProcessGetRestoreThreadId", 12080),
    ("cuCheckpointProcessGetState", 12080),
    ("cuCheckpointProcessLock", 12080),
    ("cuCheckpointProcessRestore", 12080),
    ("cuCheckpointProcessUnlock", 12080),
    ("cuCtxCreate_v3", 11040),
    ("cuCtxCreate_v4", 12050),
    ("cuCtxGetDevice_v2", 13000),
    ("cuCtxSynchronize_v2", 13000),
    ("cuEventElapsedTime_v2", 12080),
    ("cuLaunchHostFunc_v2", 13010),
    ("cuLaunchHostFunc_v2_ptsz", 13010),
    ("cuMemcpyHtoD_v2_ptds", 7000),
    ("cuStreamGetCtx_v2", 12050),
    ("cuStreamGetCtx_v2_ptsz", 12050),
    ("cuStreamGetDevice", 12080),
    ("cuStreamGetDevice_ptsz", 12080),
];

/// Functions of NVML, and the CUDA version whose `nvml.h` was the first with each; 0: they all have it.
const OF_NVML: [(&str, i32); 10] = [
    ("nvmlDeviceGetMemoryInfo_v2", 0),
    ("nvmlDeviceGetCapabilities", 12050),
    ("nvmlSystemGetDriverBranch", 12060),
    ("nvmlDeviceGetTemperatureV", 12080),
    ("nvmlDeviceGetHandleByUUIDV", 12090),
    ("nvmlDeviceGetGpuInstanceProfileInfoByIdV", 13000),
    ("nvmlDeviceGetHostname_v1", 13010),
    ("nvmlDeviceGetVgpuSchedulerState_v2", 13020),
    ("nvmlSystemGetCPER_v1", 13030),
    ("nvmlDeviceGetMemoryLimits_v1", 13040),
];

/// What is asked of `cuGetProcAddress`, the function that older drivers give, the newer one and its CUDA version.
const VARIANTS: [(&str, Option<&str>, &str, i32); 8] = [
    ("cuCtxCreate", Some("cuCtxCreate_v3"), "cuCtxCreate_v4", 12050),
    ("cuStreamGetCtx", Some("cuStreamGetCtx"), "cuStreamGetCtx_v2", 12050),
    ("cuCheckpointProcessLock", None, "cuCheckpointProcessLock", 12080),
    ("cuEventElapsedTime", Some("cuEventElapsedTime"), "cuEventElapsedTime_v2", 12080),
    ("cuStreamGetDevice", None, "cuStreamGetDevice", 12080),
    ("cuCtxGetDevice", Some("cuCtxGetDevice"), "cuCtxGetDevice_v2", 13000),
    ("cuCtxSynchronize", Some("cuCtxSynchronize"), "cuCtxSynchronize_v2", 13000),
    ("cuLaunchHostFunc", Some("cuLaunchHostFunc"), "cuLaunchHostFunc_v2", 13010),
];

/// Errors, and the CUDA version whose `cuda.h` was the first with each; 0: they all have it.
const ERRORS: [(i32, &CStr, i32); 5] = [
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", 0),
    (36, c"CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", 13000),
    (226, c"CUDA_ERROR_CONTAINED", 12080),
    (917, c"CUDA_ERROR_STREAM_DETACHED", 13010),
    (918, c"CUDA_ERROR_GRAPH_RECAPTURE_FAILURE", 13030),
];

/// Attributes of a device, and the CUDA version whose `cuda.h` was the first with each; 0: they all have it.
const ATTRIBUTES: [(i32, i32); 7] =
    [(134, 0), (135, 12050), (139, 12080), (147, 13000), (148, 13010), (149, 13030), (157, 13040)];

/// The driver's name of an error; what it does not know is an invalid value.
fn error_name(api: &Api, error: i32) -> Option<&'static CStr> {
    let mut name = c"unchanged".as_ptr();
    // SAFETY: a place for a pointer; a name that comes is a constant of the library, which stays loaded.
    unsafe {
        let code = (api.error_name)(error, &raw mut name);
        assert_eq!(code, i32::from(name.is_null()));
        (!name.is_null()).then(|| CStr::from_ptr(name))
    }
}

/// A function by its name, as the loader finds it; null when there is none.
fn symbol(library: &str, name: &str) -> *mut c_void {
    let (library, name) = (CString::new(library).expect("a path"), CString::new(name).expect("a name"));
    // SAFETY: loading the library runs its initialisers only, and it stays.
    unsafe {
        let library = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_NODELETE);
        assert!(!library.is_null(), "dlopen");
        libc::dlsym(library, name.as_ptr())
    }
}

/// What `cuGetProcAddress` answers: code, function, status.
fn proc_address(api: &Api, name: &str, asked: i32) -> (i32, *mut c_void, i32) {
    proc_address_of(api, name, asked, 0)
}

fn proc_address_of(api: &Api, name: &str, asked: i32, flags: u64) -> (i32, *mut c_void, i32) {
    let (mut function, mut status) = (std::ptr::null_mut(), -1);
    let name = CString::new(name).expect("a name");
    // SAFETY: a NUL-terminated name, and places for what comes back.
    let code = unsafe { (api.proc_address)(name.as_ptr(), &raw mut function, asked, flags, &raw mut status) };
    (code, function, status)
}

#[test]
fn a_function_comes_with_the_driver_of_its_cuda() {
    for (driver, cuda) in DRIVERS {
        let machine = Machine::with_driver("h100", driver);
        let (libcuda, api) = (machine.library(), Api::load(&machine.library()));
        let mut version = 0;
        // SAFETY: a place for an int.
        assert_eq!(unsafe { (api.driver_version)(&raw mut version) }, 0);
        assert_eq!(version, cuda, "{driver}, before cuInit");
        for (name, since) in OF_LIBCUDA {
            assert_eq!(api.has(name), cuda >= since, "{driver}: {name}");
        }
        let nvml = libcuda.replace("libcuda.so.1", "libnvidia-ml.so.1");
        for (name, since) in OF_NVML {
            assert_eq!(!symbol(&nvml, name).is_null(), cuda >= since, "{driver}: {name}");
        }
        for (error, name, since) in ERRORS {
            let known = cuda >= since;
            assert_eq!(error_name(&api, error), if known { Some(name) } else { None }, "{driver}");
        }
        for (name, older, newer, since) in VARIANTS {
            let wanted = if cuda >= since { Some(newer) } else { older };
            let address = wanted.map_or(std::ptr::null_mut(), |wanted| symbol(&libcuda, wanted));
            // What the driver does not have in any variant is not found.
            let status = i32::from(address.is_null());
            assert_eq!(proc_address(&api, name, cuda), (0, address, status), "{driver}: {name}");
            assert_eq!(proc_address(&api, name, cuda + 10).0, 1, "no driver knows what comes after it");
        }
        api.open();
        for (attribute, since) in ATTRIBUTES {
            let mut value = 0;
            // SAFETY: a place for an int.
            let code = unsafe { (api.attribute)(&raw mut value, attribute, 0) };
            assert_eq!(code, i32::from(cuda < since), "{driver}: attribute {attribute}");
        }
    }
}

#[test]
fn a_program_that_was_built_for_an_older_cuda_gets_what_that_had() {
    let machine = Machine::with_driver("h100", "610.10");
    let (libcuda, api) = (machine.library(), Api::load(&machine.library()));
    for (name, older, newer, since) in VARIANTS {
        assert_eq!(proc_address(&api, name, since), (0, symbol(&libcuda, newer), 0), "{name}");
        let address = older.map_or(std::ptr::null_mut(), |older| symbol(&libcuda, older));
        // CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT: it is there, and the program is too old for it.
        let status = if older.is_some() { 0 } else { 2 };
        assert_eq!(proc_address(&api, name, since - 10), (0, address, status), "{name}");
    }
}

#[test]
fn a_program_that_was_built_for_its_threads_own_streams_gets_those() {
    const LEGACY: u64 = 1;
    const PER_THREAD: u64 = 2;
    let machine = Machine::with_driver("h100", "610.10");
    let (libcuda, api) = (machine.library(), Api::load(&machine.library()));
    for (name, legacy, own) in [
        ("cuStreamGetCtx", "cuStreamGetCtx_v2", "cuStreamGetCtx_v2_ptsz"),
        ("cuMemcpyHtoD", "cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"),
        ("cuLaunchKernel", "cuLaunchKernel", "cuLaunchKernel_ptsz"),
        ("cuMemAlloc", "cuMemAlloc_v2", "cuMemAlloc_v2"),
    ] {
        assert_eq!(proc_address_of(&api, name, 13000, LEGACY), (0, symbol(&libcuda, legacy), 0), "{name}");
        assert_eq!(proc_address_of(&api, name, 13000, PER_THREAD), (0, symbol(&libcuda, own), 0), "{name}");
    }
}
