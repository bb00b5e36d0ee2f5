//! What the parts of the simulated NVIDIA driver say to each other.
//!
//! The "hardware" (`baton-sim-card serve`) listens on a unix stream socket that lies among the firmware files of the
//! driver root. The simulated `libcuda.so.1` and `libnvidia-ml.so.1` connect to it. A message is one frame:
//!
//! ```text
//! length: u32, little endian | that many bytes of JSON | descriptors by SCM_RIGHTS on the first byte
//! ```
//!
//! Bulk data never travels: card memory is a memfd that the hardware hands over and both sides map.

mod card;
mod deed;
mod frame;
mod message;
mod mig;
mod mps;
mod root;

pub use card::{Card, CardUse, Ledger, MOST_CARDS, MOST_RANGES, ProcessUse, Range, RangeWanted};
pub use deed::{CommandOrders, Deed, FaultAction, UuidPair};
pub use frame::{Channel, LONGEST_FRAME};
pub use message::{Reply, Request};
pub use mig::{Change, ComputeInstance, ComputeMode, GpuInstance, InstanceId, Placement, Settings, Timeslice};
pub use mps::{
    MPS_CLIENT_TERMINATED, MPS_CONNECTION_FAILED, MPS_MAX_CLIENTS_REACHED, MPS_SERVER_NOT_READY, MPS_SOCKET, MpsReply,
    MpsRequest,
};
pub use root::{DEFAULT_DRIVER, DriverRoot, HARDWARE_FILE, SOCKET_FILE, device_opens};

/// What one CUDA context costs on a card, in bytes. Real contexts cost 300 to 600 MiB on these models.
pub const CONTEXT_BYTES: u64 = 512 << 20;

/// What the driver keeps of each card for itself, in bytes (NVML's `reserved`).
pub const RESERVED_BYTES: u64 = 551 << 20;

/// Allocations are multiples of this many bytes.
pub const PAGE: u64 = 4096;

/// Rounds `bytes` up to whole pages; `None` on overflow.
pub fn whole_pages(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(PAGE)
}
