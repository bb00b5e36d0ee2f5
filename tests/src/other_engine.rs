//! Nodes on which Baton's shim stands in for runc's, and drives another engine than Baton's.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use baton_nodes::NodeOptions;
use baton_nodes::house::node_root;

use crate::machine::Machine;

/// The only name with which `ctr` passes runc's options, `BinaryName` among them.
pub const RUNC_NAME: &str = "io.containerd.runc.v2";

impl Machine {
    /// A node whose runtime of runc's name is Baton's shim, running containers by the engine of that path.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_under(engine: &str, name: &str, cards: &str) -> Machine {
        let programs = Programs::lay_out();
        let mut options = NodeOptions::new(name).cards(cards);
        options.containerd = Some(programs.0.clone());
        Machine::with(options).under(&["--runtime", RUNC_NAME, "--runc-binary", engine])
    }
}

/// A folder with containerd as the nodes have it, and with Baton's shim under the name of runc's: containerd looks for
/// shims beside itself first.
struct Programs(PathBuf);

impl Programs {
    fn lay_out() -> Programs {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("baton-programs-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for programs");
        let root = node_root().unwrap_or_else(|fault| panic!("{fault}"));
        let link = |target: &Path, name: &str| symlink(target, folder.join(name)).expect("a link to a program");
        for name in ["containerd", "ctr"] {
            link(&root.join("usr/bin").join(name), name);
        }
        link(&built("containerd-shim-baton-v2"), "containerd-shim-runc-v2");
        Programs(folder)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        // The node has them mounted by now.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program of Baton's, from where the tests were built.
fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the own program");
    let folders = own.ancestors().skip(1).take(2);
    folders.map(|folder| folder.join(name)).find(|path| path.exists()).expect("Baton's programs beside the tests")
}
