//! A simulated `libcuda.so.1`: as much of the CUDA driver API as programs use that keep their kernels as PTX text, and the
//! whole of its checkpoint API.
//!
//! Device memory is a range of the card's memory, mapped. A device pointer is a number of its own, translated by a
//! table in ordinary process memory, so it stays the same when the memory behind it moves: to anonymous host memory at
//! a checkpoint, to another card at a restore. Work in a stream is done by a thread of that stream. The library starts one
//! thread of its own at `cuInit`; all checkpoint work is done by it, woken by a real-time signal, whoever calls
//! `cuCheckpointProcess…`.
//!
//! `../FIDELITY.md` says what is like the real thing and what is not.
#![allow(non_snake_case, reason = "functions for C are called what cuda.h calls them")]

mod address;
mod allocation;
mod allocator;
mod attribute;
mod call;
mod checkpoint;
mod codes;
mod context;
mod context_calls;
mod copy;
mod copy_2d;
mod current;
mod device;
mod driver;
mod error_names;
mod event;
mod extent;
mod fault;
mod function;
mod futex;
mod gate;
mod health;
mod host_memory;
mod image;
mod init;
mod ipc;
mod job;
mod kernel;
mod launch;
mod limits;
mod lookup;
mod mapping;
mod memory;
mod mig;
mod module;
mod mover;
mod mps;
mod multicast;
mod nodes;
mod other;
mod pace;
mod peer;
mod physical;
mod pointer;
mod pool;
mod primary;
mod properties;
mod ptx;
mod reservation;
mod session;
mod set;
mod shareable;
mod signals;
mod slots;
mod span;
mod state;
mod stream;
mod stream_calls;
mod symbols;
mod table;
mod thread;
mod version;
