//! Nodes on which Baton's shim stands in for runc's, and drives another engine than Baton's.

use baton_nodes::house::node_root;

use crate::machine::Machine;
use crate::programs::{Programs, built};

/// The only name with which `ctr` passes runc's options, `BinaryName` among them.
pub const RUNC_NAME: &str = "io.containerd.runc.v2";

impl Machine {
    /// A node whose runtime of runc's name is Baton's shim, running containers by the engine of that path.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_under(engine: &str, name: &str, cards: &str) -> Machine {
        let root = node_root().unwrap_or_else(|fault| panic!("{fault}"));
        // containerd looks for shims beside itself first.
        Programs::new()
            .with(&root.join("usr/bin/containerd"), "containerd")
            .with(&root.join("usr/bin/ctr"), "ctr")
            .with(&built("containerd-shim-baton-v2"), "containerd-shim-runc-v2")
            .start(name, cards)
            .under(&["--runtime", RUNC_NAME, "--runc-binary", engine])
    }
}
