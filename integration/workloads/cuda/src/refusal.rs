//! What the driver says when it does not do what it was asked.

use std::fmt;

/// Result codes of the driver API that programs here tell apart (`CUresult` in cuda.h).
pub mod code {
    /// `CUDA_ERROR_INVALID_VALUE`.
    pub const INVALID_VALUE: i32 = 1;
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    pub const OUT_OF_MEMORY: i32 = 2;
    /// `CUDA_ERROR_NO_DEVICE`.
    pub const NO_DEVICE: i32 = 100;
    /// `CUDA_ERROR_NOT_INITIALIZED`.
    pub const NOT_INITIALIZED: i32 = 3;
    /// `CUDA_ERROR_OPERATING_SYSTEM`.
    pub const OPERATING_SYSTEM: i32 = 304;
    /// `CUDA_ERROR_ILLEGAL_STATE`.
    pub const ILLEGAL_STATE: i32 = 401;
    /// `CUDA_ERROR_NOT_FOUND`.
    pub const NOT_FOUND: i32 = 500;
    /// `CUDA_ERROR_NOT_READY`.
    pub const NOT_READY: i32 = 600;
    /// `CUDA_ERROR_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: i32 = 801;
}

/// Why a call did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CudaError {
    /// `libcuda.so.1` cannot be loaded; what the loader said.
    Library(String),
    /// This driver has no function of that name.
    Missing(&'static str),
    /// The driver refused.
    Refused {
        /// The function that was called.
        call: &'static str,
        /// Its result.
        code: i32,
        /// The result's name, as the driver gives it.
        name: String,
    },
}

impl CudaError {
    /// The driver's result, where it came that far.
    pub fn code(&self) -> Option<i32> {
        match self {
            CudaError::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CudaError::Library(why) => write!(f, "cannot load libcuda.so.1: {why}"),
            CudaError::Missing(call) => write!(f, "libcuda.so.1 has no {call}"),
            CudaError::Refused { call, code, name } => write!(f, "{call}: {name} ({code})"),
        }
    }
}

impl std::error::Error for CudaError {}

impl From<CudaError> for String {
    fn from(error: CudaError) -> String {
        error.to_string()
    }
}
