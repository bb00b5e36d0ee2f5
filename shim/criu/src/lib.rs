//! CRIU, met through `criu swrk`: one short-lived worker process for each request, spoken to over a
//! sequenced-packet socket in CRIU's own protobuf messages.
//!
//! Baton does the CUDA half of a checkpoint itself, so CRIU runs without plugins ([`Criu::dump`] and
//! [`Criu::restore`] point it at an empty plugin directory).

mod binary;
mod filters;
mod images;
mod log;
mod pagemaps;
mod request;
mod swrk;

pub use binary::{Criu, VERSION_MIN, Version};
pub use filters::{FILTERS, FilterProgram, filters_under};
pub use images::{DumpedMount, Filesystem, mounts, only_files};
pub use pagemaps::memory_is_whole;
pub use request::{Common, Dump, External, Inherited, JoinedNamespace, PageServer, Restore, TcpMode};
pub use swrk::Steps;
