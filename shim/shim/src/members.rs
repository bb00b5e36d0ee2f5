//! The other containers of a shim that serves a pod. When such a shim dies, containerd has only the container cleared up
//! that the shim was started for, and forgets the others: they would go on beside those that take their place. So the
//! shim writes down in its own bundle whom it serves, and who clears up after it ends them too.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Fault, Result};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;

/// The folder in the bundle, with a file for each, called as the container is.
const FOLDER: &str = "members";
/// Longest file of those that is read, in bytes.
const FILE_MAX: u64 = 1 << 16;

/// What is written down of one.
#[derive(Serialize, Deserialize)]
struct Member {
    engine: Engine,
    /// The number of its bundle's folder: another container of the same name has another.
    bundle: u64,
}

/// Writes down that the shim whose bundle is the working folder serves the container of that engine. The shim's own is
/// not written down; nor is any once that folder is gone, since nobody clears up by it: the shim's own container went
/// first, or its containerd was killed before it knew of the shim, and the next one has removed the folder.
///
/// # Errors
/// `FILE`, `NO_SPACE`.
pub fn note(id: &str, engine: &Engine) -> Result<()> {
    let what = || format!("write down that {id} belongs to this shim");
    let number = |path: &Path| fs::metadata(path).map(|folder| folder.ino());
    let bundle = number(engine.bundle()).attempt(what)?;
    if number(Path::new(".")).is_ok_and(|own| own == bundle) {
        return Ok(());
    }
    let text = serde_json::to_vec(&Member { engine: engine.clone(), bundle })
        .map_err(|err| Fault::new(baton_fault::Code::System, what(), err))?;
    match fs::create_dir_all(FOLDER).and_then(|()| fs::write(Path::new(FOLDER).join(id), text)) {
        Err(_) if is_gone(Path::new(".")) => Ok(()),
        written => written.attempt(what),
    }
}

/// Whether the folder has no name any more.
fn is_gone(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|folder| folder.nlink() == 0)
}

/// Forgets it.
pub fn forget(id: &str) {
    // There is none of the shim's own, and no folder any more when the shim's own container went first.
    let _ = fs::remove_file(Path::new(FOLDER).join(id));
}

/// The engines of those who are still there, and whose bundles are those of then, or gone.
pub fn left(bundle: &Path) -> Vec<Engine> {
    let entries = fs::read_dir(bundle.join(FOLDER)).into_iter().flatten().flatten();
    entries.filter_map(|entry| read(&entry.path(), bundle)).collect()
}

fn read(file: &PathBuf, shims: &Path) -> Option<Engine> {
    use std::io::Read;
    let mut text = Vec::new();
    fs::File::open(file).and_then(|file| file.take(FILE_MAX).read_to_end(&mut text)).ok()?;
    let member: Member = serde_json::from_slice(&text).ok()?;
    match fs::metadata(member.engine.bundle()) {
        Ok(folder) if folder.ino() == member.bundle => Some(member.engine),
        Ok(_) => None,
        // The engine runs in a bundle; any will do to delete.
        Err(_) => Some(member.engine.in_bundle(shims)),
    }
}
