//! Loading the driver.

use std::ffi::CStr;
use std::sync::OnceLock;

use crate::calls::Calls;
use crate::{Card, CudaError, Result};

/// The driver of this process.
pub struct Driver {
    pub(crate) calls: Calls,
}

impl Driver {
    /// Loads `libcuda.so.1`, without initialising it.
    pub fn load() -> Result<&'static Driver> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Driver::find).as_ref().map_err(Clone::clone)
    }

    fn find() -> Result<Driver> {
        // SAFETY: loading the driver library runs its initialisers, as in every CUDA program.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: after a failed dlopen there is a message, NUL-terminated.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(CudaError::Library(why.to_string_lossy().into_owned()));
        }
        Ok(Driver { calls: Calls::find(library) })
    }

    /// Loads it and calls `cuInit`; as often as one likes.
    pub fn open() -> Result<&'static Driver> {
        let driver = Driver::load()?;
        // SAFETY: no flags.
        unsafe { driver.calls.init(0) }?;
        Ok(driver)
    }

    /// The CUDA version of the driver: 13000 for 13.0.
    pub fn version(&self) -> Result<i32> {
        let mut version = 0;
        // SAFETY: a place for an int.
        unsafe { self.calls.driver_version(&raw mut version) }?;
        Ok(version)
    }

    /// The cards that this process may use, in the driver's order.
    pub fn cards(&'static self) -> Result<Vec<Card>> {
        let mut count = 0;
        // SAFETY: a place for an int.
        unsafe { self.calls.device_count(&raw mut count) }?;
        Ok((0..count).map(|ordinal| Card { driver: self, ordinal }).collect())
    }

    /// The first of them.
    pub fn card(&'static self) -> Card {
        Card { driver: self, ordinal: 0 }
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Driver")
    }
}
