//! What the simulated cards are: the models, what each can be cut into, and where an instance fits.
//!
//! NVML answers from these tables, the hardware makes instances by them, `nvidia-smi` prints them.

mod branch;
mod capability;
mod geometry;
mod identity;
mod models;
mod profile;

pub use branch::cuda_version;
pub use capability::{CAPABILITY_MAJOR, Capability, capability_table};
pub use geometry::{choose, gpu_instance_id, possible};
pub use identity::mig_uuid;
pub use models::{MODELS, Model};
pub use profile::{ComputeProfile, Engines, GpuProfile, MigTable};
