//! The functions of `libcuda.so.1`, each found when the library is loaded, or missing in that driver.

#![allow(clippy::too_many_arguments, reason = "cuda.h has functions with eleven")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::{CudaError, Result};

macro_rules! calls {
    ($($(#[$doc:meta])* $method:ident: $symbol:literal ($($argument:ident: $kind:ty),*);)*) => {
        /// The functions that were found.
        pub struct Calls {
            error_name: Option<unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int>,
            $($method: Option<unsafe extern "C" fn($($kind),*) -> c_int>,)*
        }

        impl Calls {
            /// Looks each function up in the open library.
            pub fn find(library: *mut c_void) -> Calls {
                // SAFETY: the handle is open and the name NUL-terminated.
                let find = |name: &CStr| unsafe { libc::dlsym(library, name.as_ptr()) };
                // SAFETY: the driver API (cuda.h) fixes the signature of each symbol; null becomes None.
                unsafe {
                    Calls {
                        error_name: std::mem::transmute::<
                            *mut c_void,
                            Option<unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int>,
                        >(find(c"cuGetErrorName")),
                        $($method: std::mem::transmute::<
                            *mut c_void,
                            Option<unsafe extern "C" fn($($kind),*) -> c_int>,
                        >(find(named(concat!($symbol, "\0")))),)*
                    }
                }
            }

            $($(#[$doc])*
            ///
            /// # Safety
            ///
            /// The arguments must be what cuda.h asks of this function.
            pub unsafe fn $method(&self, $($argument: $kind),*) -> Result<()> {
                let call = self.$method.ok_or(CudaError::Missing($symbol))?;
                // SAFETY: the caller vouches for the arguments.
                self.checked($symbol, unsafe { call($($argument),*) })
            })*
        }
    };
}

calls! {
    /// Initialises the driver.
    init: "cuInit" (flags: c_uint);
    /// The CUDA version of the driver.
    driver_version: "cuDriverGetVersion" (version: *mut c_int);
    /// The number of cards.
    device_count: "cuDeviceGetCount" (count: *mut c_int);
    /// A card's name.
    device_name: "cuDeviceGetName" (name: *mut c_char, length: c_int, device: c_int);
    /// A card's UUID.
    device_uuid: "cuDeviceGetUuid_v2" (uuid: *mut [u8; 16], device: c_int);
    /// A card's memory.
    device_memory: "cuDeviceTotalMem_v2" (bytes: *mut usize, device: c_int);
    /// A card's place on the bus.
    device_bus_id: "cuDeviceGetPCIBusId" (text: *mut c_char, length: c_int, device: c_int);
    /// An attribute of a card.
    device_attribute: "cuDeviceGetAttribute" (value: *mut c_int, attribute: c_int, device: c_int);
    /// Takes the primary context of a card.
    retain: "cuDevicePrimaryCtxRetain" (context: *mut usize, device: c_int);
    /// Gives it back.
    release: "cuDevicePrimaryCtxRelease_v2" (device: c_int);
    /// Makes a context the calling thread's.
    set_current: "cuCtxSetCurrent" (context: usize);
    /// Waits for all work of the context.
    synchronize: "cuCtxSynchronize" ();
    /// Free and all memory of the current card.
    memory_info: "cuMemGetInfo_v2" (free: *mut usize, total: *mut usize);
    /// Takes device memory.
    allocate: "cuMemAlloc_v2" (pointer: *mut u64, bytes: usize);
    /// Gives it back.
    free: "cuMemFree_v2" (pointer: u64);
    /// Takes managed memory.
    allocate_managed: "cuMemAllocManaged" (pointer: *mut u64, bytes: usize, flags: c_uint);
    /// Sets bytes.
    set: "cuMemsetD8_v2" (pointer: u64, value: u8, bytes: usize);
    /// Copies to the card.
    to_device: "cuMemcpyHtoD_v2" (to: u64, from: *const c_void, bytes: usize);
    /// Copies from the card.
    to_host: "cuMemcpyDtoH_v2" (to: *mut c_void, from: u64, bytes: usize);
    /// The same on a stream.
    to_device_async: "cuMemcpyHtoDAsync_v2" (to: u64, from: *const c_void, bytes: usize, stream: usize);
    /// The same on a stream.
    to_host_async: "cuMemcpyDtoHAsync_v2" (to: *mut c_void, from: u64, bytes: usize, stream: usize);
    /// Takes pinned host memory.
    host_allocate: "cuMemHostAlloc" (pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    /// Gives it back.
    host_free: "cuMemFreeHost" (pointer: *mut c_void);
    /// Pins memory that there is.
    host_register: "cuMemHostRegister_v2" (pointer: *mut c_void, bytes: usize, flags: c_uint);
    /// Lets go of it.
    host_unregister: "cuMemHostUnregister" (pointer: *mut c_void);
    /// Makes a stream.
    stream_create: "cuStreamCreate" (stream: *mut usize, flags: c_uint);
    /// Ends one.
    stream_destroy: "cuStreamDestroy_v2" (stream: usize);
    /// Waits for its work.
    stream_synchronize: "cuStreamSynchronize" (stream: usize);
    /// Has it wait for an event.
    stream_wait: "cuStreamWaitEvent" (stream: usize, event: usize, flags: c_uint);
    /// Makes an event.
    event_create: "cuEventCreate" (event: *mut usize, flags: c_uint);
    /// Ends one.
    event_destroy: "cuEventDestroy_v2" (event: usize);
    /// Marks a place in a stream.
    event_record: "cuEventRecord" (event: usize, stream: usize);
    /// Waits until it is reached.
    event_synchronize: "cuEventSynchronize" (event: usize);
    /// Loads a module.
    load_module: "cuModuleLoadData" (module: *mut usize, image: *const c_void);
    /// Finds a kernel in it.
    function: "cuModuleGetFunction" (function: *mut usize, module: usize, name: *const c_char);
    /// Launches a kernel.
    launch: "cuLaunchKernel" (
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared_bytes: c_uint, stream: usize, parameters: *mut *mut c_void, extra: *mut *mut c_void
    );
    /// The driver's thread in a process.
    checkpoint_thread: "cuCheckpointProcessGetRestoreThreadId" (pid: c_int, tid: *mut c_int);
    /// A process's state.
    checkpoint_state: "cuCheckpointProcessGetState" (pid: c_int, state: *mut c_uint);
    /// Locks a process.
    checkpoint_lock: "cuCheckpointProcessLock" (pid: c_int, args: *mut c_void);
    /// Moves its device memory to the host.
    checkpoint: "cuCheckpointProcessCheckpoint" (pid: c_int, args: *mut c_void);
    /// Moves it back.
    checkpoint_restore: "cuCheckpointProcessRestore" (pid: c_int, args: *mut c_void);
    /// Unlocks the process.
    checkpoint_unlock: "cuCheckpointProcessUnlock" (pid: c_int, args: *mut c_void);
}

/// A symbol's name, which ends with a NUL.
fn named(symbol: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(symbol.as_bytes()).unwrap_or(c"")
}

impl Calls {
    fn checked(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        if let Some(error_name) = self.error_name {
            // SAFETY: a place for a pointer.
            unsafe { error_name(code, &raw mut name) };
        }
        let name = if name.is_null() {
            "unknown error".to_owned()
        } else {
            // SAFETY: the driver's names are NUL-terminated and live for ever.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        };
        Err(CudaError::Refused { call, code, name })
    }
}
