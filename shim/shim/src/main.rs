//! `containerd-shim-baton-v2`: containerd's Task service, version 3, for one pod or lone container.
//!
//! The shim runs the engine (`baton`, or whatever `BinaryName` says) as a program for everything that forks or
//! enters namespaces, and owns the order of every pause, checkpoint and restore itself. Nothing slow runs
//! under a lock, so State of one container never waits for another.

mod children;
mod container;
mod control;
mod create;
mod engine;
mod events;
mod options;
mod process;
mod resources;
mod save;
mod service;
mod start;
mod stdio;
mod task;
mod terminal;

/// containerd's name of the runtime.
const RUNTIME: &str = baton_config::names::RUNTIME;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    containerd_shim::asynchronous::run::<service::Service>(RUNTIME, None).await;
}
