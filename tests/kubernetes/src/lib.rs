//! What the tests of pods share: a cluster, and pods as a test holds them.

pub mod bed;
pub mod pod;

/// The handlers that a pod behaves the same under: Baton's in both layouts of containerd's configuration, and runc's
/// shim, by which a test shows that it asks for what Kubernetes promises.
pub const CLASSES: [&str; 3] = ["baton", "baton-name", "runc"];
/// The image that every node has.
pub const IMAGE: &str = "localhost/baton/counter:1";
