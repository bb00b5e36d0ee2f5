//! What lies in containerd's store and in Baton's folders on a node: equal before and after whatever is to leave
//! nothing behind.

use std::collections::BTreeSet;

use crate::machine::Machine;
use crate::until::until_equal;

/// Everything that a save or a restore could leave half-made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    images: BTreeSet<String>,
    content: BTreeSet<String>,
    half_written: BTreeSet<String>,
    leases: BTreeSet<String>,
    snapshots: BTreeSet<String>,
    tasks: BTreeSet<String>,
    staging: BTreeSet<String>,
    bundles: BTreeSet<String>,
    engine: BTreeSet<String>,
    shims: usize,
}

/// One command for all, each list after a line of its own.
const LIST: &str = "
echo ==; ctr image ls -q
echo ==; ctr content ls -q
echo ==; ctr content active
echo ==; ctr leases ls -q
echo ==; ctr snapshot ls
echo ==; ctr task ls
echo ==; ls /var/lib/baton/staging 2>/dev/null
echo ==; ls /run/containerd/io.containerd.runtime.v2.task/default 2>/dev/null
echo ==; ls /run/baton/engine/default 2>/dev/null
echo ==; pgrep -f '^/.*containerd-shim-(baton|runc)-v2' || true";

impl Machine {
    /// What there is now.
    ///
    /// # Panics
    /// When containerd does not say.
    pub fn store(&self) -> Store {
        let text = self.ok(&["sh", "-c", LIST]);
        let mut lists = text.split("==\n").skip(1).map(|list| {
            list.lines().map(|line| line.split_whitespace().next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        });
        let mut set = || lists.next().expect("a list").into_iter().collect::<BTreeSet<_>>();
        Store {
            images: set(),
            content: set(),
            half_written: set(),
            leases: set(),
            snapshots: set(),
            tasks: set(),
            staging: set(),
            bundles: set(),
            engine: set(),
            shims: set().len(),
        }
    }

    /// Waits until there is what there was: containerd removes what nobody holds a moment later.
    ///
    /// # Panics
    /// With both, when they still differ at the deadline.
    pub fn store_becomes(&self, before: &Store) {
        until_equal("nothing half-made is left", before, || {
            let mut now = self.store();
            // What nobody refers to (the index of an import) may go at any time; nothing may be added.
            if now.content.is_subset(&before.content) {
                now.content.clone_from(&before.content);
            }
            now
        });
    }
}
