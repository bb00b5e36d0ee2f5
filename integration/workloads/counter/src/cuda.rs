//! The few calls of the CUDA driver that counting needs.

use std::ffi::{CStr, c_char, c_void};

/// An open driver with a context on the first card.
pub struct Cuda {
    calls: Calls,
    context: usize,
    step: usize,
}

macro_rules! calls {
    ($($field:ident: $symbol:literal ($($kind:ty),*);)*) => {
        struct Calls { $($field: unsafe extern "C" fn($($kind),*) -> i32,)* }

        impl Calls {
            fn load(library: *mut c_void) -> Result<Calls, String> {
                Ok(Calls {
                    $($field: {
                        let name = concat!($symbol, "\0");
                        // SAFETY: the handle is open and the name NUL-terminated.
                        let found = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
                        if found.is_null() {
                            return Err(format!("libcuda.so.1 has no {}", $symbol));
                        }
                        // SAFETY: the driver API fixes the signature of that symbol.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> i32>(found) }
                    },)*
                })
            }
        }
    };
}

calls! {
    init: "cuInit" (u32);
    error_name: "cuGetErrorName" (i32, *mut *const c_char);
    retain: "cuDevicePrimaryCtxRetain" (*mut usize, i32);
    set_current: "cuCtxSetCurrent" (usize);
    uuid: "cuDeviceGetUuid_v2" (*mut [u8; 16], i32);
    allocate: "cuMemAlloc_v2" (*mut u64, usize);
    set: "cuMemsetD8_v2" (u64, u8, usize);
    to_device: "cuMemcpyHtoD_v2" (u64, *const u8, usize);
    to_host: "cuMemcpyDtoH_v2" (*mut u8, u64, usize);
    load_module: "cuModuleLoadData" (*mut usize, *const c_void);
    function: "cuModuleGetFunction" (*mut usize, usize, *const c_char);
    launch: "cuLaunchKernel" (usize, u32, u32, u32, u32, u32, u32, u32, usize, *mut *mut c_void, *mut *mut c_void);
    synchronize: "cuCtxSynchronize" ();
}

impl Cuda {
    /// Loads the driver and takes the first card.
    pub fn open() -> Result<Cuda, String> {
        // SAFETY: loading the driver library runs its initialisers, as in every CUDA program.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: after a failed dlopen there is a message, NUL-terminated.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned();
            return Err(format!("cannot load libcuda.so.1: {why}"));
        }
        let mut cuda = Cuda { calls: Calls::load(library)?, context: 0, step: 0 };
        let mut module = 0usize;
        // SAFETY: each call gets what the driver API wants: places for handles, NUL-terminated texts.
        unsafe {
            cuda.check("cuInit", (cuda.calls.init)(0))?;
            let mut context = 0;
            cuda.check("cuDevicePrimaryCtxRetain", (cuda.calls.retain)(&raw mut context, 0))?;
            cuda.context = context;
            cuda.use_here()?;
            cuda.check("cuModuleLoadData", (cuda.calls.load_module)(&raw mut module, c"baton".as_ptr().cast()))?;
            let mut step = 0;
            let name = c"baton_count_step".as_ptr();
            cuda.check("cuModuleGetFunction", (cuda.calls.function)(&raw mut step, module, name))?;
            cuda.step = step;
        }
        Ok(cuda)
    }

    fn check(&self, what: &str, code: i32) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: a place for a pointer.
        unsafe { (self.calls.error_name)(code, &raw mut name) };
        let name = if name.is_null() {
            "unknown error".into()
        } else {
            // SAFETY: the driver's names are NUL-terminated and live for ever.
            unsafe { CStr::from_ptr(name) }.to_string_lossy()
        };
        Err(format!("{what}: {name} ({code})"))
    }

    /// Makes the context current in the calling thread.
    pub fn use_here(&self) -> Result<(), String> {
        // SAFETY: the context was given by the driver.
        self.check("cuCtxSetCurrent", unsafe { (self.calls.set_current)(self.context) })
    }

    /// The UUID of the card, as the driver reports it now.
    pub fn uuid(&self) -> Result<String, String> {
        let mut bytes = [0u8; 16];
        // SAFETY: a place for 16 bytes.
        self.check("cuDeviceGetUuid_v2", unsafe { (self.calls.uuid)(&raw mut bytes, 0) })?;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
    }

    /// Device memory, all zero.
    pub fn allocate(&self, bytes: u64) -> Result<u64, String> {
        let mut pointer = 0;
        // SAFETY: a place for a device pointer; then a range that was just given.
        unsafe {
            self.check("cuMemAlloc_v2", (self.calls.allocate)(&raw mut pointer, bytes as usize))?;
            self.check("cuMemsetD8_v2", (self.calls.set)(pointer, 0, bytes as usize))?;
        }
        Ok(pointer)
    }

    /// Copies to the card.
    pub fn write(&self, to: u64, from: &[u8]) -> Result<(), String> {
        // SAFETY: the source is a slice of that length; the driver checks the target.
        self.check("cuMemcpyHtoD_v2", unsafe { (self.calls.to_device)(to, from.as_ptr(), from.len()) })
    }

    /// Copies from the card.
    pub fn read(&self, from: u64, to: &mut [u8]) -> Result<(), String> {
        // SAFETY: the target is a slice of that length; the driver checks the source.
        self.check("cuMemcpyDtoH_v2", unsafe { (self.calls.to_host)(to.as_mut_ptr(), from, to.len()) })
    }

    /// One launch of the counting kernel.
    pub fn step(&self, mut state: u64) -> Result<(), String> {
        let mut parameters = [(&raw mut state).cast::<c_void>()];
        let none = std::ptr::null_mut();
        // SAFETY: the kernel takes one 64-bit parameter; its address is the first entry.
        unsafe {
            let launched = (self.calls.launch)(self.step, 1, 1, 1, 1, 1, 1, 0, 0, parameters.as_mut_ptr(), none);
            self.check("cuLaunchKernel", launched)?;
            self.check("cuCtxSynchronize", (self.calls.synchronize)())
        }
    }
}
