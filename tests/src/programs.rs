//! Nodes with other programs than the usual ones in /usr/local/bin.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use baton_nodes::{NodeOptions, product};

use crate::machine::Machine;

/// A folder of links to programs; a node that is started with it has them in /usr/local/bin for good.
#[derive(Debug)]
pub struct Programs(PathBuf);

impl Programs {
    /// An empty folder.
    ///
    /// # Panics
    /// When it cannot be made.
    #[expect(clippy::new_without_default, reason = "making a folder is no default")]
    pub fn new() -> Programs {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("baton-programs-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for programs");
        Programs(folder)
    }

    /// With this program under that name.
    ///
    /// # Panics
    /// When it is not there.
    #[must_use]
    pub fn with(self, program: &Path, name: &str) -> Programs {
        assert!(program.exists(), "{} is not there", program.display());
        symlink(program, self.0.join(name)).expect("a link to a program");
        self
    }

    /// A node that has them.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(self, name: &str, cards: &str) -> Machine {
        Machine::with(NodeOptions::new(name).cards(cards).containerd(&self.0))
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        // A node has the files themselves mounted by now.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program of Baton's, from where the tests were built.
///
/// # Panics
/// When it is not built.
pub fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the own program");
    let folders = own.ancestors().skip(1).take(2);
    let found = folders.map(|folder| product::program(folder, name)).find(|path| path.exists());
    found.expect("Baton's programs where the tests were built")
}

/// A program that this machine has on its PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}
