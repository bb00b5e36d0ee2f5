//! A simulated `libcuda.so.1`: as much of the CUDA driver API as a program needs to count in GPU memory, and the whole
//! of its checkpoint API.
//!
//! Device memory is a range of the card's memory, mapped. A device pointer is a number of its own, translated by a
//! table in ordinary process memory, so it stays the same when the memory behind it moves: to anonymous host memory at
//! a checkpoint, to another card at a restore. The library starts one thread of its own at `cuInit`; all checkpoint
//! work is done by it, woken by a real-time signal, whoever calls `cuCheckpointProcess…`.
//!
//! `../FIDELITY.md` says what is like the real thing and what is not.

mod allocator;
mod checkpoint;
mod codes;
mod context;
mod device;
mod driver;
mod futex;
mod gate;
mod kernel;
mod lookup;
mod mapping;
mod memory;
mod mover;
mod pace;
mod session;
mod slots;
mod state;
mod thread;
mod transfer;
