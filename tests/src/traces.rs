//! What a container leaves on a node besides its record in containerd: nothing of it may be there once it is gone.

use std::collections::BTreeSet;

use crate::machine::{BIN, DRIVER_ROOT, Machine};
use crate::until::until_equal;

/// Everything of Baton's containers that there is on a node; empty when there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    processes: BTreeSet<String>,
    mounts: BTreeSet<String>,
    cgroups: BTreeSet<String>,
    bundles: BTreeSet<String>,
    engine: BTreeSet<String>,
    control: BTreeSet<String>,
    staging: BTreeSet<String>,
    leases: BTreeSet<String>,
}

/// One command for all, each list after a line of its own.
const LIST: &str = "
echo ==; grep -o '/run/containerd/io.containerd.runtime.v2.task/[^ ]*' /proc/1/mounts || true
echo ==; find /sys/fs/cgroup -path '*/default/*' -type d
echo ==; ls /run/containerd/io.containerd.runtime.v2.task/default 2>/dev/null
echo ==; ls /run/baton/engine/default 2>/dev/null
echo ==; ls /run/baton/control 2>/dev/null
echo ==; ls /var/lib/baton/staging 2>/dev/null
echo ==; ctr leases ls -q";

/// Programs that run only for a container.
const PROGRAMS: &[&str] = &["containerd-shim-baton-v2", "baton", "baton-gpu-agent", "criu", "counter"];

impl Machine {
    /// What there is now.
    ///
    /// # Panics
    /// When containerd does not say.
    pub fn traces(&self) -> Traces {
        let text = self.ok(&["sh", "-c", LIST]);
        let mut lists = text.split("==\n").skip(1).map(|list| list.lines().map(str::to_owned).collect());
        let mut set = || lists.next().expect("a list");
        let ours = |command: &String| {
            let program = command.split(' ').next().and_then(|program| program.rsplit('/').next());
            program.is_some_and(|name| PROGRAMS.contains(&name))
        };
        Traces {
            processes: self.processes().into_iter().map(|process| process.command).filter(ours).collect(),
            mounts: set(),
            cgroups: set(),
            bundles: set(),
            engine: set(),
            control: set(),
            staging: set(),
            leases: set(),
        }
    }

    /// Waits until there is nothing.
    ///
    /// # Panics
    /// With what there is at the deadline.
    pub fn no_trace_is_left(&self) {
        until_equal("no trace of a container is left", &Traces::default(), || self.traces());
    }

    /// Demands that the cards' books balance and that nobody holds anything on them.
    ///
    /// # Panics
    /// With the books, when they say otherwise at the deadline.
    pub fn cards_are_free(&self) {
        let books = format!("{BIN}/baton-sim-card");
        until_equal("the cards are free", &(true, 0), || {
            let done = self.attempt(&[&books, "books", "--root", DRIVER_ROOT]);
            let ledger: serde_json::Value = serde_json::from_str(&done.stdout).expect("the books");
            let used = ledger["cards"].as_array().expect("cards").iter().map(|card| card["used"].as_u64());
            (done.status.success(), used.map(|used| used.expect("a number")).sum::<u64>())
        });
    }
}
