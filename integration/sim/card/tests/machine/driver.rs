//! The driver loaded into the test: its checkpoint API, as an agent calls it.

use std::ffi::{CString, c_void};

/// The driver, loaded into the test.
#[derive(Clone, Copy)]
pub struct Driver {
    handle: *mut c_void,
}

// SAFETY: the library stays loaded, and its functions may be called from any thread.
unsafe impl Send for Driver {}

impl Driver {
    /// Of a library that is open.
    pub fn of(handle: *mut c_void) -> Driver {
        Driver { handle }
    }

    /// A function by name.
    pub fn function(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).expect("name");
        // SAFETY: the handle is open and never closed.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    }

    fn process_call(&self, name: &str, pid: i32, args: &[u8; 64]) -> i32 {
        // SAFETY: the cuCheckpointProcess… functions with args have this signature.
        let call: unsafe extern "C" fn(i32, *const [u8; 64]) -> i32 =
            unsafe { std::mem::transmute(self.function(name)) };
        // SAFETY: a whole block of args.
        unsafe { call(pid, args) }
    }

    pub fn lock(&self, pid: i32, timeout_ms: u32) -> i32 {
        let mut args = [0u8; 64];
        args[..4].copy_from_slice(&timeout_ms.to_ne_bytes());
        self.process_call("cuCheckpointProcessLock", pid, &args)
    }

    pub fn checkpoint(&self, pid: i32) -> i32 {
        self.process_call("cuCheckpointProcessCheckpoint", pid, &[0; 64])
    }

    pub fn unlock(&self, pid: i32) -> i32 {
        self.process_call("cuCheckpointProcessUnlock", pid, &[0; 64])
    }

    /// Restores with a map of (old, new) UUIDs; empty for none.
    pub fn restore(&self, pid: i32, map: &[(&str, &str)]) -> i32 {
        let pairs: Vec<[[u8; 16]; 2]> = map.iter().map(|(old, new)| [uuid(old), uuid(new)]).collect();
        let mut args = [0u8; 64];
        if !pairs.is_empty() {
            args[..8].copy_from_slice(&(pairs.as_ptr() as u64).to_ne_bytes());
            args[8..12].copy_from_slice(&(pairs.len() as u32).to_ne_bytes());
        }
        self.process_call("cuCheckpointProcessRestore", pid, &args)
    }

    /// Result and state.
    pub fn state(&self, pid: i32) -> (i32, u32) {
        let mut state = u32::MAX;
        // SAFETY: the signature of that function.
        let call: unsafe extern "C" fn(i32, *mut u32) -> i32 =
            unsafe { std::mem::transmute(self.function("cuCheckpointProcessGetState")) };
        // SAFETY: a place for the state.
        (unsafe { call(pid, &raw mut state) }, state)
    }

    pub fn thread(&self, pid: i32) -> (i32, i32) {
        let mut tid = 0;
        // SAFETY: the signature of that function.
        let call: unsafe extern "C" fn(i32, *mut i32) -> i32 =
            unsafe { std::mem::transmute(self.function("cuCheckpointProcessGetRestoreThreadId")) };
        // SAFETY: a place for the tid.
        (unsafe { call(pid, &raw mut tid) }, tid)
    }

    /// Becomes a neighbour: a context on the first card and that much memory of it. The pointer comes back.
    pub fn take(&self, bytes: usize) -> u64 {
        let (mut context, mut pointer) = (0usize, 0u64);
        // SAFETY: the signatures of the driver API, and places for what comes back.
        unsafe {
            let init: unsafe extern "C" fn(u32) -> i32 = std::mem::transmute(self.function("cuInit"));
            let retain: unsafe extern "C" fn(*mut usize, i32) -> i32 =
                std::mem::transmute(self.function("cuDevicePrimaryCtxRetain"));
            let current: unsafe extern "C" fn(usize) -> i32 = std::mem::transmute(self.function("cuCtxSetCurrent"));
            let allocate: unsafe extern "C" fn(*mut u64, usize) -> i32 =
                std::mem::transmute(self.function("cuMemAlloc_v2"));
            assert_eq!(init(0), 0);
            assert_eq!(retain(&raw mut context, 0), 0);
            assert_eq!(current(context), 0);
            assert_eq!(allocate(&raw mut pointer, bytes), 0);
        }
        pointer
    }

    /// Gives the memory back.
    pub fn free(&self, pointer: u64) {
        // SAFETY: the signature of that function.
        let free: unsafe extern "C" fn(u64) -> i32 = unsafe { std::mem::transmute(self.function("cuMemFree_v2")) };
        // SAFETY: any number may be given.
        assert_eq!(unsafe { free(pointer) }, 0);
    }
}

fn uuid(text: &str) -> [u8; 16] {
    let digits: String = text.trim_start_matches("GPU-").chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).expect("a UUID").to_be_bytes()
}
