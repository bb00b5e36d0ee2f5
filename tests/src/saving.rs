//! A save under way, and the job that must be as it was after one that failed.

use std::path::PathBuf;

use crate::job::Status;
use crate::machine::Machine;
use crate::until::{until, until_equal};

/// What containerd keeps of a container while it runs.
const BUNDLES: &str = "/run/containerd/io.containerd.runtime.v2.task/default";

/// A job before something happens that it must survive.
#[derive(Clone, Debug)]
pub struct Before {
    id: String,
    status: Status,
    used: u64,
}

impl Before {
    /// The job as it is now, the only one with a card on its node.
    pub fn note(node: &Machine, id: &str) -> Before {
        Before { id: id.to_owned(), status: node.status(id), used: node.card().used }
    }

    /// The job goes on, on the same card with the same memory, thawed.
    ///
    /// # Panics
    /// When it does not.
    pub fn goes_on(&self, node: &Machine) {
        let now = node.status(&self.id);
        let later = node.wait_for_step(&self.id, now.step.max(self.status.step) + 10);
        assert_eq!((&later.gpu, later.memory), (&self.status.gpu, self.status.memory));
        assert_eq!(node.task_state(&self.id), "RUNNING");
        assert!(!node.is_frozen(&self.id), "it is frozen");
        let card = node.card();
        assert_eq!((card.used, card.users.len()), (self.used, 1), "its memory on the card");
    }
}

impl Machine {
    /// Saves a running job, which goes on.
    ///
    /// # Panics
    /// When the save fails.
    pub fn save(&self, id: &str, reference: &str) {
        let said = self.ok(&["baton", "save", id, reference]);
        assert!(said.contains("goes on"), "{said}");
    }

    /// The journal of a save of that container.
    pub fn journal(&self, id: &str) -> PathBuf {
        self.root_path(&format!("{BUNDLES}/{id}/baton-journal.jsonl"))
    }

    /// Waits until a save is about to do what this entry of the journal undoes.
    pub fn until_journaled(&self, id: &str, entry: &str) {
        let (path, entry) = (self.journal(id), format!("\"{entry}\""));
        until(&format!("the journal has {entry}"), || {
            std::fs::read_to_string(&path).unwrap_or_default().contains(&entry).then_some(())
        });
    }

    /// Whether the cgroup of a container is frozen.
    ///
    /// # Panics
    /// When it has none.
    pub fn is_frozen(&self, id: &str) -> bool {
        let (file, frozen, _) = self.freezer(id);
        std::fs::read_to_string(file).expect("the freezer's state").trim() == frozen
    }

    /// Freezes a container behind everybody's back.
    ///
    /// # Panics
    /// When it has no freezer.
    pub fn freeze(&self, id: &str) {
        let (file, frozen, _) = self.freezer(id);
        std::fs::write(&file, frozen).expect("freeze it");
        until_equal("it is frozen", &true, || self.is_frozen(id));
    }

    /// Thaws a container behind everybody's back.
    ///
    /// # Panics
    /// When it has no freezer.
    pub fn thaw(&self, id: &str) {
        let (file, _, thawed) = self.freezer(id);
        std::fs::write(file, thawed).expect("thaw it");
    }

    /// The file of a container's freezer, and what freezes and thaws it: version 1 or 2.
    fn freezer(&self, id: &str) -> (PathBuf, &'static str, &'static str) {
        let v1 = self.root_path(&format!("/sys/fs/cgroup/freezer/default/{id}/freezer.state"));
        if v1.exists() {
            return (v1, "FROZEN", "THAWED");
        }
        (self.root_path(&format!("/sys/fs/cgroup/default/{id}/cgroup.freeze")), "1", "0")
    }

    /// Waits until a task has stopped, deletes it, and gives what `ctr` says of its end.
    pub fn delete_stopped(&self, id: &str) -> String {
        until(&format!("{id} ends"), || (self.task_state(id) == "STOPPED").then_some(()));
        self.attempt(&["ctr", "task", "delete", id]).stderr
    }
}
