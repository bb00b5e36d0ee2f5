//! A simulated `libnvidia-ml.so.1`: what container runtimes, monitors and administrators ask of it, down to the layout of
//! every struct and the code of every refusal. It keeps no connection and no node open between calls.
//!
//! Layouts, numbers and codes are those of `nvml.h` (NVML 12.9 to 13.5) and of NVIDIA's Python bindings (`nvidia-ml-py`
//! 13.615). Functions for what these cards do not have are there and answer `NVML_ERROR_NOT_SUPPORTED`.

mod absent;
mod clock;
mod codes;
mod compute_instance;
mod event;
mod fault;
mod field;
mod figures;
mod find;
mod gpu_instance;
mod handle;
mod health;
mod identity;
mod layout;
mod library;
mod link;
mod memory;
mod mig_device;
mod permission;
mod pointer;
mod power;
mod processes;
mod profile;
mod profile_layout;
mod settings;
mod system;
mod topology;
