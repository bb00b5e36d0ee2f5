//! A simulated `libnvidia-ml.so.1`: the questions that a container runtime asks. It keeps no connection and no node open
//! between calls.

mod codes;
mod device;
mod library;
mod processes;
mod system;
