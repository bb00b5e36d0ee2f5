//! The CUDA driver API as the workloads use it: `libcuda.so.1` is loaded at run time, so the same program runs on a real
//! card and on a simulated one, and says so where there is neither.
//!
//! The driver cannot be unloaded and there is one in a process, so everything here lives as long as the process or is
//! given back when it is dropped.

mod calls;
mod card;
pub mod checkpoint;
mod context;
mod driver;
mod host;
mod kernels;
mod memory;
mod refusal;
mod stream;

pub use card::Card;
pub use context::Context;
pub use driver::Driver;
pub use host::{Pinned, Registered};
pub use kernels::{Kernels, PTX};
pub use memory::DeviceMemory;
pub use refusal::{CudaError, code};
pub use stream::{Event, Stream};

/// What a call of the driver came to.
pub type Result<T> = std::result::Result<T, CudaError>;
