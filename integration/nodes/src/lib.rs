//! Test nodes in namespaces: each a real, unpatched containerd in mount, pid, net, uts, ipc and cgroup
//! namespaces of its own, joined by a bridge on which the registry `registry.test:5000` is.
//!
//! A node starts in under two seconds and takes everything in it along when it is stopped. Tests use [`Node`];
//! a person uses `integration/node`, and both go through the program `baton-node`.

pub mod archive;
pub mod authority;
pub mod boot;
pub mod cell;
pub mod cgroup;
pub mod cri;
pub mod enter;
pub mod house;
pub mod hub;
pub mod image;
pub mod init;
mod node;
pub mod product;
pub mod programs;
pub mod rootfs;
pub mod start;
pub mod stop;

pub use node::{Node, Output};
pub use start::NodeOptions;
