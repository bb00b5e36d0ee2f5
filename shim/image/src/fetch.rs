//! A checkpoint out of containerd's store into a directory that CRIU restores from.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};

use crate::blob::damaged;
use crate::pages;
use crate::resolve::Checkpoint;
use crate::state;
use crate::store::Store;

impl Store {
    /// Brings state and pages into `into`, which must not exist yet and is then for root only. On failure the
    /// directory is removed; when this is cancelled, too.
    ///
    /// # Errors
    /// `IMAGE_CORRUPT` for a blob that is missing, cut, or not what the manifest says; `NO_SPACE`.
    pub async fn fetch(&self, checkpoint: &Checkpoint, into: &Path) -> Result<()> {
        let what = format!("fetch the checkpoint in {}", checkpoint.reference);
        let lease = self.lease().await.map_err(|fault| fault.during(&what))?;
        let fetched = self.fetch_under(&lease, checkpoint, into).await;
        // What the lease held belongs to the image; a lease that cannot be deleted expires.
        let released = lease.release().await;
        fetched.and(released).map_err(|fault| fault.during(&what))
    }

    async fn fetch_under(&self, lease: &crate::Lease, checkpoint: &Checkpoint, into: &Path) -> Result<()> {
        for blob in checkpoint.pages.iter().chain([&checkpoint.state]) {
            lease.hold(&blob.digest).await?;
        }
        let directory = Directory::create(into)?;
        let manifest = &checkpoint.manifest;
        let bytes = manifest.state.as_ref().map_or(0, |state| state.bytes);
        state::bring_back(self, &checkpoint.state, bytes, into).await?;
        for segment in &manifest.segments {
            let blob = checkpoint.pages.iter().find(|blob| blob.digest == segment.digest);
            let blob = blob.ok_or_else(|| damaged(&segment.file, "its pages are not in the image"))?;
            pages::bring_back(self, segment, blob, into).await?;
        }
        directory.keep();
        Ok(())
    }
}

/// A fresh directory that is removed unless it is kept.
struct Directory<'a>(Option<&'a Path>);

impl<'a> Directory<'a> {
    fn create(path: &'a Path) -> Result<Directory<'a>> {
        let what = || format!("create {}", path.display());
        match std::fs::DirBuilder::new().mode(0o700).create(path) {
            Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(Fault::new(Code::Exists, what(), "it exists already"))
            }
            other => other.attempt(what).map(|()| Directory(Some(path))),
        }
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Directory<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}
