//! The checkpoint image: an ordinary OCI image that also carries a saved container, read from and written to
//! containerd's content store.
//!
//! ```text
//! image manifest ── config: the base image's config, with the label io.baton.checkpoint=v1
//!                └─ layers: the base image's layers, unchanged
//!                           one layer with the root filesystem's changes
//!                           checkpoint manifest  (small JSON: what was saved, where, what it needs, segment table)
//!                           state                (tar+zstd: CRIU's small images, descriptors, logs)
//!                           pages …              (zstd: process memory, one blob for each segment)
//! ```
//!
//! Saving goes `lease → diff → publish → push`, and whatever a failed save wrote belongs to the lease and goes
//! with it. Reading goes `checkpoint` (small blobs only, each bounded and verified) → the caller's gate →
//! `fetch`. A checkpoint image is untrusted input: every length is bounded, every digest verified, names in it
//! are data.

mod base;
mod blob;
mod diff;
mod digest;
mod fetch;
mod inspect;
mod lease;
pub mod manifest;
mod oci;
pub mod pages;
mod publish;
mod push;
mod reference;
mod resolve;
pub mod state;
mod status;
mod store;
mod stream;

pub use base::BaseImage;
pub use diff::Layer;
pub use digest::Digest;
pub use inspect::Inspection;
pub use lease::Lease;
pub use manifest::Manifest;
pub use oci::Descriptor;
pub use publish::{Publication, Published};
pub use push::{DEFAULT_HOSTS_DIR, Pushed};
pub use reference::check_reference;
pub use resolve::Checkpoint;
pub use store::{ContainerRecord, Store};
