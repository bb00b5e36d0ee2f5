//! The driver API as a program of a test calls it: loaded by name, with the signatures of cuda.h.

use std::ffi::{CString, c_char, c_void};

use super::by_handle::{Access, GroupProperties, Location, Properties};

/// A handle that the driver gives.
pub type Handle = usize;

macro_rules! api {
    ($($(#[$meta:meta])* $field:ident: $symbol:literal ($($kind:ty),*);)*) => {
        /// Functions of the driver.
        #[allow(dead_code, reason = "each test calls some of them")]
        pub struct Api { library: *mut c_void, $($(#[$meta])* pub $field: unsafe extern "C" fn($($kind),*) -> i32,)* }

        impl Api {
            /// Loads the library of that name or path.
            pub fn load(library: &str) -> Api {
                let name = CString::new(library).expect("a name");
                // SAFETY: loading the library runs its initialisers only.
                let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NODELETE) };
                if library.is_null() {
                    // SAFETY: after a failed dlopen there is a message, NUL-terminated.
                    panic!("{}", unsafe { std::ffi::CStr::from_ptr(libc::dlerror()) }.to_string_lossy());
                }
                Api {
                    library,
                    $($field: {
                        let found = find(library, $symbol);
                        assert!(!found.is_null(), $symbol);
                        // SAFETY: cuda.h gives that function this signature.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> i32>(found) }
                    },)*
                }
            }
        }
    };
}

/// A function by name; null when there is none.
fn find(library: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).expect("a name");
    // SAFETY: the handle is open and never closed.
    unsafe { libc::dlsym(library, name.as_ptr()) }
}

/// `CUstreamCallback`.
pub type Callback = unsafe extern "C" fn(Handle, i32, *mut c_void);
/// `CUhostFn`.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

api! {
    init: "cuInit" (u32);
    driver_version: "cuDriverGetVersion" (*mut i32);
    error_name: "cuGetErrorName" (i32, *mut *const c_char);
    proc_address: "cuGetProcAddress_v2" (*const c_char, *mut *mut c_void, i32, u64, *mut i32);
    device_count: "cuDeviceGetCount" (*mut i32);
    device_name: "cuDeviceGetName" (*mut c_char, i32, i32);
    card_uuid: "cuDeviceGetUuid" (*mut [u8; 16], i32);
    device_uuid: "cuDeviceGetUuid_v2" (*mut [u8; 16], i32);
    device_memory: "cuDeviceTotalMem_v2" (*mut usize, i32);
    attribute: "cuDeviceGetAttribute" (*mut i32, i32, i32);
    retain: "cuDevicePrimaryCtxRetain" (*mut Handle, i32);
    release: "cuDevicePrimaryCtxRelease_v2" (i32);
    primary_state: "cuDevicePrimaryCtxGetState" (i32, *mut u32, *mut i32);
    create_context: "cuCtxCreate_v2" (*mut Handle, u32, i32);
    destroy_context: "cuCtxDestroy_v2" (Handle);
    set_current: "cuCtxSetCurrent" (Handle);
    get_current: "cuCtxGetCurrent" (*mut Handle);
    synchronize: "cuCtxSynchronize" ();
    set_limit: "cuCtxSetLimit" (u32, usize);
    get_limit: "cuCtxGetLimit" (*mut usize, u32);
    allocate: "cuMemAlloc_v2" (*mut u64, usize);
    allocate_pitch: "cuMemAllocPitch_v2" (*mut u64, *mut usize, usize, usize, u32);
    allocate_managed: "cuMemAllocManaged" (*mut u64, usize, u32);
    allocate_async: "cuMemAllocAsync" (*mut u64, usize, Handle);
    free_async: "cuMemFreeAsync" (u64, Handle);
    free: "cuMemFree_v2" (u64);
    memory_info: "cuMemGetInfo_v2" (*mut usize, *mut usize);
    address_range: "cuMemGetAddressRange_v2" (*mut u64, *mut usize, u64);
    pointer_attribute: "cuPointerGetAttribute" (*mut c_void, u32, u64);
    host_allocate: "cuMemHostAlloc" (*mut *mut c_void, usize, u32);
    host_free: "cuMemFreeHost" (*mut c_void);
    host_register: "cuMemHostRegister_v2" (*mut c_void, usize, u32);
    host_unregister: "cuMemHostUnregister" (*mut c_void);
    to_device: "cuMemcpyHtoD_v2" (u64, *const c_void, usize);
    to_host: "cuMemcpyDtoH_v2" (*mut c_void, u64, usize);
    copy: "cuMemcpy" (u64, u64, usize);
    to_device_async: "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, Handle);
    to_host_async: "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, Handle);
    device_to_device: "cuMemcpyDtoD_v2" (u64, u64, usize);
    set_8: "cuMemsetD8_v2" (u64, u8, usize);
    set_32: "cuMemsetD32_v2" (u64, u32, usize);
    set_16_async: "cuMemsetD16Async" (u64, u16, usize, Handle);
    stream_create: "cuStreamCreate" (*mut Handle, u32);
    stream_destroy: "cuStreamDestroy_v2" (Handle);
    stream_query: "cuStreamQuery" (Handle);
    stream_synchronize: "cuStreamSynchronize" (Handle);
    stream_wait: "cuStreamWaitEvent" (Handle, Handle, u32);
    stream_callback: "cuStreamAddCallback" (Handle, Callback, *mut c_void, u32);
    host_function: "cuLaunchHostFunc" (Handle, HostFunction, *mut c_void);
    event_create: "cuEventCreate" (*mut Handle, u32);
    event_record: "cuEventRecord" (Handle, Handle);
    event_query: "cuEventQuery" (Handle);
    event_synchronize: "cuEventSynchronize" (Handle);
    event_elapsed: "cuEventElapsedTime" (*mut f32, Handle, Handle);
    load_module: "cuModuleLoadData" (*mut Handle, *const c_char);
    unload_module: "cuModuleUnload" (Handle);
    function: "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    launch: "cuLaunchKernel" (Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void);
    ipc_export: "cuIpcGetMemHandle" (*mut IpcHandle, u64);
    ipc_open: "cuIpcOpenMemHandle_v2" (*mut u64, IpcHandle, u32);
    ipc_close: "cuIpcCloseMemHandle" (u64);
    address_reserve: "cuMemAddressReserve" (*mut u64, usize, usize, u64, u64);
    address_free: "cuMemAddressFree" (u64, usize);
    memory_create: "cuMemCreate" (*mut Handle, usize, *const Properties, u64);
    memory_release: "cuMemRelease" (Handle);
    memory_map: "cuMemMap" (u64, usize, usize, Handle, u64);
    memory_unmap: "cuMemUnmap" (u64, usize);
    set_access: "cuMemSetAccess" (u64, usize, *const Access, usize);
    get_access: "cuMemGetAccess" (*mut u64, *const Location, u64);
    granularity: "cuMemGetAllocationGranularity" (*mut usize, *const Properties, u32);
    properties: "cuMemGetAllocationPropertiesFromHandle" (*mut Properties, Handle);
    retain_handle: "cuMemRetainAllocationHandle" (*mut Handle, *mut c_void);
    export: "cuMemExportToShareableHandle" (*mut c_void, Handle, u32, u64);
    import: "cuMemImportFromShareableHandle" (*mut Handle, *mut c_void, u32);
    group_create: "cuMulticastCreate" (*mut Handle, *const GroupProperties);
    group_join: "cuMulticastAddDevice" (Handle, i32);
    group_granularity: "cuMulticastGetGranularity" (*mut usize, *const GroupProperties, u32);
}

/// `CUipcMemHandle`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle(pub [u8; 64]);

/// The kernels of the workloads, as PTX text.
pub fn kernels() -> CString {
    CString::new(include_str!("../../../../workloads/kernels/baton.ptx")).expect("text")
}

#[allow(dead_code, reason = "each test calls some of them")]
impl Api {
    /// Whether the library has a function of that name.
    pub fn has(&self, name: &str) -> bool {
        !find(self.library, name).is_null()
    }

    /// Initialises the driver and takes the first card; the context comes back.
    pub fn open(&self) -> Handle {
        let mut context = 0;
        // SAFETY: a place for a handle.
        unsafe {
            assert_eq!((self.init)(0), 0, "cuInit");
            assert_eq!((self.retain)(&raw mut context, 0), 0, "cuDevicePrimaryCtxRetain");
            assert_eq!((self.set_current)(context), 0, "cuCtxSetCurrent");
        }
        context
    }
}

#[allow(dead_code, reason = "each test calls some of them")]
impl Api {
    /// Device memory.
    pub fn memory(&self, bytes: usize) -> u64 {
        let mut pointer = 0;
        // SAFETY: a place for a pointer.
        assert_eq!(unsafe { (self.allocate)(&raw mut pointer, bytes) }, 0, "cuMemAlloc_v2");
        pointer
    }

    /// A stream.
    pub fn stream(&self, flags: u32) -> Handle {
        let mut stream = 0;
        // SAFETY: a place for a handle.
        assert_eq!(unsafe { (self.stream_create)(&raw mut stream, flags) }, 0, "cuStreamCreate");
        stream
    }

    /// An event.
    pub fn event(&self) -> Handle {
        let mut event = 0;
        // SAFETY: a place for a handle.
        assert_eq!(unsafe { (self.event_create)(&raw mut event, 0) }, 0, "cuEventCreate");
        event
    }

    /// A kernel of the workloads.
    pub fn kernel(&self, name: &str) -> Handle {
        let (mut module, mut function, text) = (0, 0, kernels());
        let name = CString::new(name).expect("a name");
        // SAFETY: NUL-terminated texts, and places for handles.
        unsafe {
            assert_eq!((self.load_module)(&raw mut module, text.as_ptr()), 0, "cuModuleLoadData");
            assert_eq!((self.function)(&raw mut function, module, name.as_ptr()), 0, "cuModuleGetFunction");
        }
        function
    }

    /// Launches a kernel whose parameters are all words, or an `unsigned` last.
    pub fn run(&self, kernel: Handle, stream: Handle, words: &[u64]) -> i32 {
        let mut words = words.to_vec();
        let mut places: Vec<*mut c_void> = words.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        // SAFETY: a place for each parameter.
        unsafe { (self.launch)(kernel, 1, 1, 1, 32, 1, 1, 0, stream, places.as_mut_ptr(), std::ptr::null_mut()) }
    }

    /// Copies to the card.
    pub fn write(&self, to: u64, bytes: &[u8]) -> i32 {
        // SAFETY: the source is a slice of that length.
        unsafe { (self.to_device)(to, bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Copies from the card.
    pub fn read(&self, from: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        // SAFETY: the target has that length.
        assert_eq!(unsafe { (self.to_host)(bytes.as_mut_ptr().cast(), from, length) }, 0, "cuMemcpyDtoH_v2");
        bytes
    }
}

// SAFETY: the functions may be called from any thread.
unsafe impl Sync for Api {}
// SAFETY: as above.
unsafe impl Send for Api {}
