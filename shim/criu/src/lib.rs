//! CRIU, met through `criu swrk`: one short-lived worker process for each request, spoken to over a
//! sequenced-packet socket in CRIU's own protobuf messages.
//!
//! Baton does the CUDA half of a checkpoint itself, so CRIU runs without plugins ([`Criu::dump`] and
//! [`Criu::restore`] point it at an empty plugin directory).

mod binary;
mod filters;
mod images;
mod log;
mod request;
mod swrk;

pub use binary::{Criu, VERSION_MIN, Version};
pub use filters::{FILTERS, FilterProgram, filters_under};
pub use images::{DumpedMount, Filesystem, mounts};
pub use request::{Common, Dump, External, Inherited, JoinedNamespace, Restore, TcpMode};
pub use swrk::Steps;
