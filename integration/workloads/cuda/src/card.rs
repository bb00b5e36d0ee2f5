//! A card.

use std::ffi::{CStr, c_char};

use crate::{Context, Driver, Result};

/// A card that this process may use.
#[derive(Debug, Clone, Copy)]
pub struct Card {
    pub(crate) driver: &'static Driver,
    pub(crate) ordinal: i32,
}

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR` in cuda.h.
const CAPABILITY: (i32, i32) = (75, 76);

impl Card {
    /// Its number in this process.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// The product's name.
    pub fn name(&self) -> Result<String> {
        let mut text = [0 as c_char; 256];
        // SAFETY: 256 bytes are told and there.
        unsafe { self.driver.calls.device_name(text.as_mut_ptr(), 256, self.ordinal) }?;
        Ok(read(&text))
    }

    /// Its place on the bus, as at the start of the process.
    pub fn bus_id(&self) -> Result<String> {
        let mut text = [0 as c_char; 32];
        // SAFETY: 32 bytes are told and there.
        unsafe { self.driver.calls.device_bus_id(text.as_mut_ptr(), 32, self.ordinal) }?;
        Ok(read(&text))
    }

    /// Its UUID, as the driver reports it now: `GPU-…`.
    pub fn uuid(&self) -> Result<String> {
        let hex: String = self.uuid_bytes()?.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
    }

    /// Its UUID as the checkpoint API takes it.
    pub fn uuid_bytes(&self) -> Result<[u8; 16]> {
        let mut bytes = [0u8; 16];
        // SAFETY: a place for 16 bytes.
        unsafe { self.driver.calls.device_uuid(&raw mut bytes, self.ordinal) }?;
        Ok(bytes)
    }

    /// Its memory in bytes.
    pub fn memory(&self) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: a place for a size.
        unsafe { self.driver.calls.device_memory(&raw mut bytes, self.ordinal) }?;
        Ok(bytes as u64)
    }

    /// Its compute capability.
    pub fn capability(&self) -> Result<(i32, i32)> {
        let ask = |attribute| {
            let mut value = 0;
            // SAFETY: a place for an int.
            unsafe { self.driver.calls.device_attribute(&raw mut value, attribute, self.ordinal) }?;
            Ok(value)
        };
        Ok((ask(CAPABILITY.0)?, ask(CAPABILITY.1)?))
    }

    /// Its primary context, current in the calling thread.
    pub fn context(&self) -> Result<Context> {
        Context::of(*self)
    }
}

fn read(text: &[c_char]) -> String {
    // SAFETY: the driver ends the text with a NUL, and the array was all NUL before.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
}
