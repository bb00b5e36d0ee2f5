//! Kubernetes on test nodes: etcd, the API server, the controllers and the scheduler on the first node, and a kubelet
//! on each. Everything of it lies and runs in the nodes, so it is gone with them.

pub mod cluster;
pub mod control;
pub mod daemon;
pub mod host;
pub mod kubelet;
pub mod papers;

pub use cluster::{Cluster, ClusterOptions};
