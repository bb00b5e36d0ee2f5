//! From a reference to what it means on this machine, and to the checkpoint in it, reading small blobs only.

use baton_config::names::{LABEL_CHECKPOINT, LABEL_CHECKPOINT_V1, MEDIA_MANIFEST, MEDIA_PAGES, MEDIA_STATE};
use baton_fault::{Code, Fault, Result};

use crate::blob::damaged;
use crate::digest::Digest;
use crate::manifest::Manifest;
use crate::oci::{self, Descriptor, ImageConfig, ImageManifest};
use crate::store::Store;

/// An image of this machine's platform.
pub(crate) struct Resolved {
    /// What the image record points to: an index or a manifest.
    pub(crate) root: Descriptor,
    pub(crate) manifest: ImageManifest,
    pub(crate) config: ImageConfig,
}

/// A checkpoint image, of which nothing large has been read.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The reference that it was found under.
    pub reference: String,
    /// Digest that the image record points to.
    pub digest: Digest,
    /// What was saved and what it needs.
    pub manifest: Manifest,
    /// The state archive.
    pub state: Descriptor,
    /// The pages, one blob for each entry; segments name them by digest.
    pub pages: Vec<Descriptor>,
    /// Bytes of the whole image, as stored.
    pub stored: u64,
}

impl Store {
    /// The checkpoint under a reference; `None` when the image is an ordinary one. Reads the image's manifest and
    /// config and the checkpoint manifest, each bounded and verified, and no more.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such image, `IMAGE_CORRUPT` when it is damaged.
    pub async fn checkpoint(&self, reference: &str) -> Result<Option<Checkpoint>> {
        let image = self.resolve(reference).await?;
        let what = format!("read the checkpoint in {reference}");
        match image.config.label(LABEL_CHECKPOINT) {
            None => return Ok(None),
            Some(LABEL_CHECKPOINT_V1) => {}
            Some(other) => {
                let why =
                    format!("its label {LABEL_CHECKPOINT} is \"{other}\", and this Baton reads {LABEL_CHECKPOINT_V1}");
                return Err(Fault::new(Code::ImageCorrupt, what, why).advise("a newer Baton is needed on this node"));
            }
        }
        let layers = &image.manifest.layers;
        let small = only(layers, MEDIA_MANIFEST, &what)?;
        let data = self.read_small(small, &what).await?;
        let manifest = Manifest::parse(&data).map_err(|fault| fault.during(&what))?;
        let state = only(layers, MEDIA_STATE, &what)?.clone();
        let pages: Vec<_> = layers.iter().filter(|layer| layer.media_type == MEDIA_PAGES).cloned().collect();
        check(&manifest, &state, &pages, &what)?;
        let stored = layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
        Ok(Some(Checkpoint {
            reference: reference.to_owned(),
            digest: image.root.digest,
            manifest,
            state,
            pages,
            stored,
        }))
    }

    /// The checkpoint under a reference, where one is demanded.
    ///
    /// # Errors
    /// As [`Store::checkpoint`], and `IMAGE_NOT_CHECKPOINT` for an ordinary image.
    pub async fn checkpoint_required(&self, reference: &str) -> Result<Checkpoint> {
        self.checkpoint(reference).await?.ok_or_else(|| {
            Fault::new(
                Code::ImageNotCheckpoint,
                format!("read the checkpoint in {reference}"),
                format!("the image has no label {LABEL_CHECKPOINT}={LABEL_CHECKPOINT_V1}"),
            )
            .advise("name an image that `baton save` wrote")
        })
    }

    /// The image's manifest and config for this machine.
    pub(crate) async fn resolve(&self, reference: &str) -> Result<Resolved> {
        let what = format!("read image {reference}");
        let root = self.image_target(reference).await?;
        let descriptor = if root.is_index() { self.pick(&root, &what).await? } else { root.clone() };
        if !descriptor.is_manifest() {
            let why = format!("it is a {} and no image", descriptor.media_type);
            return Err(Fault::new(Code::ImageNotCheckpoint, what, why).advise("name an image"));
        }
        let data = self.read_small(&descriptor, &what).await?;
        let manifest = oci::parse_manifest(&data, &what)?;
        let data = self.read_small(&manifest.config, &what).await?;
        let config = oci::parse_config(&data, &what)?;
        Ok(Resolved { root, manifest, config })
    }

    /// The first manifest of an index that fits this machine and is here.
    async fn pick(&self, root: &Descriptor, what: &str) -> Result<Descriptor> {
        let data = self.read_small(root, what).await?;
        let index = oci::parse_index(&data, what)?;
        let mut missing = None;
        for manifest in index.for_this_machine() {
            if self.blob_info(&manifest.digest).await?.is_some() {
                return Ok(manifest.clone());
            }
            missing.get_or_insert(&manifest.digest);
        }
        match missing {
            Some(digest) => Err(damaged(what, &format!("blob {digest} is not in containerd's store"))),
            None => Err(Fault::new(Code::NotFound, what, format!("it has nothing for linux/{}", oci::architecture()))),
        }
    }
}

/// The one blob of a media type.
fn only<'a>(layers: &'a [Descriptor], media_type: &str, what: &str) -> Result<&'a Descriptor> {
    let mut found = layers.iter().filter(|layer| layer.media_type == media_type);
    match (found.next(), found.next()) {
        (Some(layer), None) => Ok(layer),
        (None, _) => Err(damaged(what, &format!("it has no {media_type}"))),
        (Some(_), Some(_)) => Err(damaged(what, &format!("it has more than one {media_type}"))),
    }
}

/// The manifest and the image must speak of the same blobs.
fn check(manifest: &Manifest, state: &Descriptor, pages: &[Descriptor], what: &str) -> Result<()> {
    if manifest.state.as_ref().is_none_or(|told| told.digest != state.digest) {
        return Err(damaged(what, "its checkpoint manifest speaks of another state archive"));
    }
    let sizes: std::collections::HashMap<_, _> = pages.iter().map(|blob| (&blob.digest, blob.size)).collect();
    for segment in &manifest.segments {
        if sizes.get(&segment.digest) != Some(&segment.stored) {
            let why =
                format!("its checkpoint manifest speaks of pages {} that the image does not have", segment.digest);
            return Err(damaged(what, &why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(media_type: &str, digest: &Digest, size: i64) -> Descriptor {
        Descriptor::new(media_type, digest.clone(), size).expect("a descriptor")
    }

    #[test]
    fn manifest_and_image_must_speak_of_the_same_blobs() {
        let manifest = crate::manifest::tests::sample();
        let segment = &manifest.segments[0];
        let state = blob(MEDIA_STATE, &Digest::of(b"state"), 10);
        let good = [blob(MEDIA_PAGES, &segment.digest, 100)];
        check(&manifest, &state, &good, "t").expect("they fit");
        let other = blob(MEDIA_STATE, &Digest::of(b"other"), 10);
        assert!(check(&manifest, &other, &good, "t").is_err());
        assert!(check(&manifest, &state, &[], "t").is_err());
        assert!(check(&manifest, &state, &[blob(MEDIA_PAGES, &segment.digest, 99)], "t").is_err());
    }

    #[test]
    fn there_is_one_manifest_and_one_state() {
        let a = blob(MEDIA_STATE, &Digest::of(b"a"), 1);
        assert!(only(&[], MEDIA_STATE, "t").is_err());
        assert!(only(&[a.clone(), a.clone()], MEDIA_STATE, "t").is_err());
        assert_eq!(only(std::slice::from_ref(&a), MEDIA_STATE, "t").expect("one"), &a);
    }
}
