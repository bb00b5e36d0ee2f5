//! The journal of a save: what will have to be undone, written into the bundle before it is done.
//!
//! `baton-journal.jsonl` in the bundle, one JSON line per entry, each synced to the disk before the step that it
//! is for is taken:
//!
//! ```text
//! {"will":{"unlock":{"process":{"pid":812,"begun":4711}}}}      the step is about to be taken; this undoes it
//! {"undone":3}                                                  entry 3 (from 0) has been undone, or is not needed
//! ```
//!
//! A save that ended well or was undone removes the file. One that is left says what a crash has left.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use serde::{Deserialize, Serialize};

use crate::gpu::Share;
use crate::processes::ProcessId;

/// Name of the file in the bundle.
const NAME: &str = "baton-journal.jsonl";
/// Largest journal that is read back, in bytes.
const SIZE_MAX: u64 = 16 << 20;

/// What undoes one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// Remove the folder in which images are staged.
    RemoveStaging {
        /// The folder.
        folder: PathBuf,
    },
    /// Delete a lease in containerd, and with it everything in the store that only it holds.
    DeleteContentLease {
        /// Its id.
        id: String,
    },
    /// Remove the view of the parent snapshot that a diff was taken against.
    RemoveView {
        /// The snapshotter.
        snapshotter: String,
        /// The view's key.
        key: String,
    },
    /// Let a CUDA process go on.
    Unlock {
        /// The process.
        process: ProcessId,
    },
    /// Put a memory limit back.
    LowerMemoryLimit {
        /// The file that holds it.
        file: PathBuf,
        /// Its value.
        bytes: u64,
    },
    /// Bring the GPU state of a process back onto its cards, once there is room.
    RestoreGpu {
        /// The process.
        process: ProcessId,
        /// What it needs on each card.
        shares: Vec<Share>,
    },
    /// Freeze the container, which was frozen when the save began.
    Freeze,
    /// Thaw the container.
    Thaw,
}

impl Undo {
    /// Whether it only tidies up: it can wait, and no job depends on it.
    pub fn can_wait(&self) -> bool {
        match self {
            Undo::RemoveStaging { .. } | Undo::DeleteContentLease { .. } | Undo::RemoveView { .. } => true,
            Undo::Unlock { .. }
            | Undo::LowerMemoryLimit { .. }
            | Undo::RestoreGpu { .. }
            | Undo::Freeze
            | Undo::Thaw => false,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Entry {
    Will(Undo),
    Undone(usize),
}

/// The journal of one save.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    pending: Vec<(usize, Undo)>,
    postponed: Vec<(usize, Undo)>,
    written: usize,
}

impl Journal {
    /// Begins a journal in `bundle`. What an earlier save could not tidy up is taken over.
    ///
    /// # Errors
    /// `STATE` when an earlier save could not be undone, `NO_SPACE` or `SYSTEM` when it cannot be written.
    pub fn begin(bundle: &Path) -> Result<Journal> {
        let path = bundle.join(NAME);
        let left = leftovers(bundle);
        if !left.iter().all(Undo::can_wait) {
            return Err(Fault::new(
                Code::State,
                format!("begin the journal {}", path.display()),
                "an earlier save is under way, or could not be undone",
            )
            .advise("kill the container and restore its last checkpoint"));
        }
        let what = || format!("begin the journal {}", path.display());
        match std::fs::remove_file(&path) {
            Err(err) if err.kind() != std::io::ErrorKind::NotFound => return Err(Fault::io(what(), &err)),
            _ => {}
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .attempt(what)?;
        let mut journal = Journal { path, file, pending: Vec::new(), postponed: Vec::new(), written: 0 };
        for undo in left.into_iter().rev() {
            journal.will(undo)?;
        }
        Ok(journal)
    }

    /// Writes down what undoes the step that is about to be taken.
    ///
    /// # Errors
    /// `NO_SPACE` or `SYSTEM`; the step must then not be taken.
    pub fn will(&mut self, undo: Undo) -> Result<()> {
        self.append(&Entry::Will(undo.clone()))?;
        self.pending.push((self.written, undo));
        self.written += 1;
        Ok(())
    }

    /// How much there is to undo; a mark to undo down to.
    pub fn depth(&self) -> usize {
        self.pending.len()
    }

    /// What is to be undone next, if more than `mark` is left.
    pub fn next_above(&self, mark: usize) -> Option<Undo> {
        self.pending[mark.min(self.pending.len())..].last().map(|(_, undo)| undo.clone())
    }

    /// Says that the newest entry has been undone. A journal that cannot take the line any more (a full disk) does
    /// not stop the undoing: after a crash the entry would be undone twice, which every kind of entry allows.
    pub fn undone(&mut self) {
        if let Some((number, _)) = self.pending.pop()
            && let Err(fault) = self.append(&Entry::Undone(number))
        {
            log::warn!("{fault}");
        }
    }

    /// Leaves the newest entry for later: it could not be done now, and can wait.
    pub fn postpone(&mut self) {
        self.postponed.extend(self.pending.pop());
    }

    /// What was left for later, oldest first.
    pub fn postponed(&self) -> Vec<Undo> {
        self.postponed.iter().map(|(_, undo)| undo.clone()).collect()
    }

    /// Says that an entry which had been left for later has been undone.
    pub fn made_up_for(&mut self, undo: &Undo) {
        if let Some(at) = self.postponed.iter().position(|(_, waiting)| waiting == undo) {
            let (number, _) = self.postponed.remove(at);
            if let Err(fault) = self.append(&Entry::Undone(number)) {
                log::warn!("{fault}");
            }
        }
    }

    /// Ends the journal. The file goes when nothing is left to undo; otherwise the next save, or the shim's `delete`,
    /// finds in it what there is to tidy up.
    pub fn end(self) {
        if !self.pending.is_empty() || !self.postponed.is_empty() {
            return;
        }
        if let Err(err) = std::fs::remove_file(&self.path) {
            log::warn!("remove the journal {}: {err}", self.path.display());
        }
    }

    fn append(&mut self, entry: &Entry) -> Result<()> {
        let what = || format!("write the journal {}", self.path.display());
        let mut line = serde_json::to_vec(entry).map_err(|err| Fault::new(Code::System, what(), err))?;
        line.push(b'\n');
        self.file.write_all(&line).attempt(what)?;
        self.file.sync_data().attempt(what)
    }
}

/// What a save that was cut off has left to undo, newest first; empty when there was none. A line that a crash cut
/// short is the last one, and its step was not taken.
pub fn leftovers(bundle: &Path) -> Vec<Undo> {
    let mut text = String::new();
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(bundle.join(NAME));
    if opened.and_then(|file| file.take(SIZE_MAX).read_to_string(&mut text)).is_err() {
        return Vec::new();
    }
    let mut entries: Vec<Option<Undo>> = Vec::new();
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(Entry::Will(undo)) => entries.push(Some(undo)),
            Ok(Entry::Undone(number)) => {
                if let Some(entry) = entries.get_mut(number) {
                    *entry = None;
                }
            }
            Err(_) => break,
        }
    }
    entries.into_iter().rev().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlock(pid: u32) -> Undo {
        Undo::Unlock { process: ProcessId { pid, begun: 1 } }
    }

    #[test]
    fn what_is_left_is_undone_newest_first() {
        let bundle = tempfile::tempdir().expect("folder");
        let mut journal = Journal::begin(bundle.path()).expect("begin");
        journal.will(unlock(1)).expect("will");
        journal.will(unlock(2)).expect("will");
        let mark = journal.depth();
        journal.will(Undo::Thaw).expect("will");
        assert_eq!(journal.next_above(mark), Some(Undo::Thaw));
        journal.undone();
        assert_eq!(journal.next_above(mark), None);
        assert_eq!(leftovers(bundle.path()), [unlock(2), unlock(1)]);
        journal.will(Undo::Freeze).expect("will");
        assert_eq!(leftovers(bundle.path()), [Undo::Freeze, unlock(2), unlock(1)]);
    }

    #[test]
    fn a_line_cut_short_by_a_crash_is_not_a_step() {
        let bundle = tempfile::tempdir().expect("folder");
        let mut journal = Journal::begin(bundle.path()).expect("begin");
        journal.will(unlock(1)).expect("will");
        let mut file = OpenOptions::new().append(true).open(bundle.path().join(NAME)).expect("open");
        file.write_all(b"{\"will\":{\"unl").expect("cut line");
        assert_eq!(leftovers(bundle.path()), [unlock(1)]);
    }

    #[test]
    fn what_can_wait_is_taken_over_by_the_next_save() {
        let bundle = tempfile::tempdir().expect("folder");
        let lease = Undo::DeleteContentLease { id: "l".into() };
        let mut journal = Journal::begin(bundle.path()).expect("begin");
        journal.will(lease.clone()).expect("will");
        journal.will(Undo::Thaw).expect("will");
        journal.undone();
        journal.postpone();
        assert_eq!(journal.postponed(), std::slice::from_ref(&lease));
        journal.end();
        let mut next = Journal::begin(bundle.path()).expect("the next save");
        assert_eq!(next.next_above(0), Some(lease.clone()));
        next.postpone();
        next.made_up_for(&lease);
        next.end();
        assert!(!bundle.path().join(NAME).exists());
    }

    #[test]
    fn a_save_that_could_not_be_undone_blocks_the_next_and_none_is_left_after_the_end() {
        let bundle = tempfile::tempdir().expect("folder");
        let mut journal = Journal::begin(bundle.path()).expect("begin");
        journal.will(unlock(1)).expect("will");
        assert_eq!(Journal::begin(bundle.path()).expect_err("second").code, Code::State);
        journal.undone();
        journal.end();
        assert!(leftovers(bundle.path()).is_empty());
        Journal::begin(bundle.path()).expect("free again").end();
    }
}
