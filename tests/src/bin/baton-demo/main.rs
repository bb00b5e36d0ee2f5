//! `make demo`: a GPU job is saved on one node and goes on on another.

#[path = "../attended/mod.rs"]
mod attended;
mod host;
mod job;
mod show;
mod walk;

use std::process::ExitCode;

fn main() -> ExitCode {
    attended::run(&walk::NODES, walk::walk)
}
