//! What the end-to-end tests, the demonstration and the benchmarks share: nodes with Baton on them, the job that
//! counts, and what can be seen of both from outside.
//!
//! Everything goes through the programs that a user has (`ctr`, `baton`), never through Baton's crates; the one
//! exception is the form of a fault's line, which is a promise of its own. Where a promise is one to containerd itself,
//! a shim is called as containerd calls it.

pub mod bundle;
pub mod cards;
pub mod client;
pub mod container_toolkit;
pub mod count;
pub mod cri;
pub mod docker;
pub mod image;
pub mod job;
pub mod machine;
pub mod nerdctl;
pub mod ordinary;
pub mod other_engine;
pub mod process;
pub mod programs;
pub mod python;
pub mod said;
pub mod saving;
pub mod store;
pub mod task_service;
pub mod terminal;
pub mod traces;
pub mod until;
