//! The folder that a checkpoint is written into, and what of it a failed one takes back: half an image could be taken
//! for a whole one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Result};

use crate::checkpoint::make_private;
use crate::descriptors;

/// What tells a file from one that was written anew: its number, its size and when it was last changed.
type Mark = (u64, u64, i64, i64);

/// A folder for images, as it was before a checkpoint.
pub(crate) struct ImageFolder {
    path: PathBuf,
    /// Whether there was none.
    new: bool,
    before: BTreeMap<OsString, Mark>,
}

impl ImageFolder {
    /// Makes the folder where it is missing, and notes what is in it.
    ///
    /// # Errors
    /// Of the file operations.
    pub(crate) fn make(path: &Path) -> Result<ImageFolder> {
        let new = !path.exists();
        make_private(path)?;
        let before = files(path).attempt(|| format!("list {}", path.display()))?;
        Ok(ImageFolder { path: path.to_owned(), new, before })
    }

    /// Removes the images that were written since, in best effort: CRIU's log and whatever else lies there stay.
    pub(crate) fn remove_what_is_new(self) {
        for (name, mark) in files(&self.path).unwrap_or_default() {
            if is_image(&name) && self.before.get(&name) != Some(&mark) {
                let _ = fs::remove_file(self.path.join(name));
            }
        }
        if self.new {
            // Not where CRIU's log is in it.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

fn is_image(name: &OsString) -> bool {
    let path = Path::new(name);
    path.extension().is_some_and(|extension| extension == "img") || path == Path::new(descriptors::FILE)
}

/// The regular files of a folder.
fn files(folder: &Path) -> std::io::Result<BTreeMap<OsString, Mark>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_file() {
            files.insert(entry.file_name(), (meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec()));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_checkpoint_wrote_goes_and_nothing_else() {
        let parent = tempfile::tempdir().expect("temporary folder");
        let path = parent.path().join("images");
        fs::create_dir(&path).expect("folder");
        let write = |name: &str, text: &str| fs::write(path.join(name), text).expect("write");
        write("old.img", "untouched");
        write("mm-1.img", "of an earlier one");
        write("notes", "mine");
        let folder = ImageFolder::make(&path).expect("a folder");
        write("mm-1.img", "half");
        write("inventory.img", "half");
        write(descriptors::FILE, "");
        write("dump.log", "why");
        write("notes", "mine, longer");
        folder.remove_what_is_new();
        let left: Vec<_> = files(&path).expect("list").into_keys().collect();
        assert_eq!(left, ["dump.log", "notes", "old.img"]);
    }

    #[test]
    fn a_folder_that_was_not_there_goes_too() {
        let parent = tempfile::tempdir().expect("temporary folder");
        let path = parent.path().join("a/images");
        let folder = ImageFolder::make(&path).expect("a folder");
        fs::write(path.join("core-1.img"), "half").expect("write");
        folder.remove_what_is_new();
        assert!(!path.exists());
    }
}
