//! From a request for GPUs to a checked plan and its edits to config.json.
//!
//! ```text
//! config.json ─ Request ─┐
//! driver root ─ Inventory ┴─ Plan ── check ── CheckedPlan ── apply ── config.json, record in the bundle
//! ```
//!
//! A plan is all or nothing: whatever is missing is named before anything is touched. NVML is met in
//! [`Inventory::read`] and [`usage`] only, the files of the driver through a root that links cannot leave.

mod apply;
mod config;
pub mod inject;
mod inventory;
mod libraries;
mod nodes;
mod nvml;
mod pick;
mod plan;
pub mod record;
mod request;
mod root;
pub mod soname;
mod uuid;
mod volume_mounts;

pub use config::Config;
pub use inventory::{Card, ComputeCapability, Inventory};
pub use libraries::cuda_library;
pub use nodes::DeviceNode;
pub use nvml::{CardUsage, usage};
pub use pick::{WantedCard, pick};
pub use plan::{CheckedPlan, DeviceRule, Hook, Mount, Plan};
pub use request::{CardRef, Request, Requested, Source};
pub use uuid::GpuUuid;

#[cfg(test)]
mod testing;
