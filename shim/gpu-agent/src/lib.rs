//! The GPU agent: the only process that loads `libcuda.so.1`, and the client by which the shim speaks to it.
//!
//! Driver calls can hang, and a library of somebody else's does not belong into a process that must outlive
//! it. So `baton-gpu-agent` is a process of its own, started once, with an empty environment, in the host's
//! namespaces. Each call runs in a thread of its own there: one that hangs blocks no other. Each has a
//! deadline here: one that overruns leaves its outcome unknown, and the caller reads the state anew.
//!
//! [`Agent`] has the bare calls; [`Running`], [`Locked`] and [`Checkpointed`] are processes in a known state,
//! each with the steps that this state allows.

mod client;
mod process;
pub mod protocol;
pub mod refusal;
mod state;

pub use client::{Agent, CallError};
pub use process::{Checkpointed, Locked, Process, Running};
pub use refusal::DriverRefusal;
pub use state::CudaState;
