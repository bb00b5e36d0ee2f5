//! The driver API as a program of a test calls it: loaded by name, with the signatures of cuda.h.

use std::ffi::{CString, c_char, c_void};

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
                assert!(!library.is_null(), "dlopen {name:?}");
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

api! {
    init: "cuInit" (u32);
    device_count: "cuDeviceGetCount" (*mut i32);
    retain: "cuDevicePrimaryCtxRetain" (*mut Handle, i32);
    set_current: "cuCtxSetCurrent" (Handle);
    synchronize: "cuCtxSynchronize" ();
    allocate: "cuMemAlloc_v2" (*mut u64, usize);
    free: "cuMemFree_v2" (u64);
    to_device: "cuMemcpyHtoD_v2" (u64, *const c_void, usize);
    to_host: "cuMemcpyDtoH_v2" (*mut c_void, u64, usize);
    load_module: "cuModuleLoadData" (*mut Handle, *const c_char);
    function: "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    launch: "cuLaunchKernel" (Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void);
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

// SAFETY: the functions may be called from any thread.
unsafe impl Sync for Api {}
