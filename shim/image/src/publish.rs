//! From a directory with CRIU's images to an image in containerd's store.
//!
//! Everything is written under the caller's lease, large things first, the image record last: a failure at any
//! point leaves no image, and what was written goes with the lease.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use baton_config::names::{LABEL_CHECKPOINT, LABEL_CHECKPOINT_V1, MEDIA_MANIFEST};
use baton_fault::Result;
use containerd_client::services::v1::images_client::ImagesClient;
use containerd_client::services::v1::{CreateImageRequest, Image, UpdateImageRequest};

use crate::Lease;
use crate::base::{BaseImage, is_ours};
use crate::diff::Layer;
use crate::digest::Digest;
use crate::manifest::{Manifest, State};
use crate::oci::{self, Descriptor, ImageManifest};
use crate::reference::check_reference;
use crate::state;
use crate::status;
use crate::store::Store;
use crate::{blob::Labels, pages};

/// What is to be published.
pub struct Publication<'a> {
    /// The base image, as [`Store::base_image`] found it.
    pub base: &'a BaseImage,
    /// The root filesystem's changes.
    pub layer: Option<Layer>,
    /// The directory with CRIU's images; flat.
    pub staging: &'a Path,
    /// What was saved; its `segments` and `state` are filled in here.
    pub manifest: Manifest,
    /// The name of the new image; an image that has it already is replaced.
    pub reference: &'a str,
    /// zstd level, 1 to 19.
    pub level: i32,
}

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The image's name.
    pub reference: String,
    /// Digest of its manifest.
    pub digest: Digest,
    /// Stored bytes of the whole image.
    pub bytes_total: u64,
    /// Stored bytes of the pages.
    pub bytes_pages: u64,
    /// Bytes of the pages before compression.
    pub bytes_pages_raw: u64,
    /// Stored bytes of the state.
    pub bytes_state: u64,
    /// Stored bytes of the root filesystem's changes.
    pub bytes_layer: u64,
    /// The checkpoint manifest as it went into the image.
    pub manifest: Manifest,
}

impl Store {
    /// Writes the image and its record.
    ///
    /// # Errors
    /// `USAGE` for a reference that is no full one, `NO_SPACE`, `STATE` for a staging directory that holds no
    /// checkpoint, what containerd answers.
    pub async fn publish(&self, lease: &Lease, publication: Publication<'_>) -> Result<Published> {
        let what = format!("publish {}", publication.reference);
        self.publish_all(lease, publication).await.map_err(|fault| fault.during(what))
    }

    async fn publish_all(&self, lease: &Lease, publication: Publication<'_>) -> Result<Published> {
        let Publication { base, layer, staging, mut manifest, reference, level } = publication;
        check_reference(reference)?;
        base.hold(lease).await?;
        let files = state::list(staging)?;
        manifest.segments.clear();
        let mut page_blobs: Vec<Descriptor> = Vec::new();
        for name in &files.pages {
            let (segment, blob) = pages::store(self, lease, staging, name, level).await?;
            manifest.segments.push(segment);
            if page_blobs.iter().all(|known| known.digest != blob.digest) {
                page_blobs.push(blob);
            }
        }
        let (state, bytes) = state::store(self, lease, staging, files.state, level).await?;
        manifest.state = Some(State { digest: state.digest.clone(), bytes });
        let small = self.put(lease, MEDIA_MANIFEST, manifest.to_bytes()?, Labels::new()).await?;

        let published = Published {
            reference: reference.to_owned(),
            digest: small.digest.clone(),
            bytes_total: 0,
            bytes_pages: page_blobs.iter().map(|blob| blob.size).sum(),
            bytes_pages_raw: manifest.pages_bytes(),
            bytes_state: state.size,
            bytes_layer: layer.as_ref().map_or(0, |layer| layer.descriptor.size),
            manifest,
        };
        let ours = [small, state].into_iter().chain(page_blobs);
        let (root, bytes_total) = self.put_image(lease, base, layer, &published.manifest, ours).await?;
        self.record(lease, reference, &root).await?;
        Ok(Published { digest: root.digest, bytes_total, ..published })
    }

    /// Writes the image's config and manifest; gives the manifest and the image's size.
    async fn put_image(
        &self,
        lease: &Lease,
        base: &BaseImage,
        layer: Option<Layer>,
        manifest: &Manifest,
        ours: impl Iterator<Item = Descriptor>,
    ) -> Result<(Descriptor, u64)> {
        let mut config = base.config.clone();
        config.set_label(LABEL_CHECKPOINT, LABEL_CHECKPOINT_V1);
        let mut layers = base.layers.clone();
        if let Some(layer) = layer {
            config.append(&layer.diff_id, &manifest.created, "root filesystem changes of a checkpoint");
            layers.push(layer.descriptor);
        }
        layers.extend(ours);
        let config = self.put(lease, oci::CONFIG, config.to_bytes(), base.unpacked()).await?;
        let bytes_total = layers.iter().map(|layer| layer.size).sum::<u64>() + config.size;
        let labels = references(&config, &layers);
        let image = ImageManifest {
            schema_version: 2,
            media_type: Some(oci::MANIFEST.to_owned()),
            config,
            layers,
            annotations: annotations(base, manifest),
        };
        let data = serde_json::to_vec(&image)
            .map_err(|err| baton_fault::Fault::new(baton_fault::Code::System, "write the image manifest", err))?;
        let root = self.put(lease, oci::MANIFEST, data, labels).await?;
        let bytes_total = bytes_total + root.size;
        Ok((root, bytes_total))
    }

    /// Creates the image record, or points an existing one to the new image.
    async fn record(&self, lease: &Lease, reference: &str, root: &Descriptor) -> Result<()> {
        let what = format!("record image {reference}");
        let target = containerd_client::types::Descriptor {
            media_type: root.media_type.clone(),
            digest: root.digest.to_string(),
            size: i64::try_from(root.size).unwrap_or(i64::MAX),
            ..Default::default()
        };
        let image = Image {
            name: reference.to_owned(),
            labels: HashMap::from([(LABEL_CHECKPOINT.to_owned(), LABEL_CHECKPOINT_V1.to_owned())]),
            target: Some(target),
            ..Default::default()
        };
        let mut images = ImagesClient::new(self.channel());
        let create = CreateImageRequest { image: Some(image.clone()), ..Default::default() };
        match images.create(self.leased(create, lease)).await {
            Ok(_) => return Ok(()),
            Err(status) if status.code() == tonic::Code::AlreadyExists => {}
            Err(status) => return Err(status::fault(what, &status)),
        }
        // Only these: other clients keep labels of their own on the record.
        let paths = vec!["target".to_owned(), format!("labels.{LABEL_CHECKPOINT}")];
        let update = UpdateImageRequest {
            image: Some(image),
            update_mask: Some(prost_types::FieldMask { paths }),
            ..Default::default()
        };
        images.update(self.leased(update, lease)).await.map_err(|status| status::fault(what, &status))?;
        Ok(())
    }
}

/// The labels by which containerd's collector finds the blobs of an image. `l.` (and a bare number) is for layers,
/// which `ctr content prune references` lets go of once they are unpacked; ours are never unpacked and must stay.
fn references(config: &Descriptor, layers: &[Descriptor]) -> Labels {
    let mut labels = Labels::from([("containerd.io/gc.ref.content.config".to_owned(), config.digest.to_string())]);
    for (index, layer) in layers.iter().enumerate() {
        let kind = if is_ours(layer) { "baton" } else { "l" };
        labels.insert(format!("containerd.io/gc.ref.content.{kind}.{index}"), layer.digest.to_string());
    }
    labels
}

/// The image's annotations: checkpointctl's names where they exist.
///
/// `org.criu.checkpoint.container.name` is left out on purpose: containerd 2.1 to 2.3 and CRI-O take an image that has
/// it for a checkpoint of their own format, and would fail to start it. The name is in the checkpoint manifest.
fn annotations(base: &BaseImage, manifest: &Manifest) -> BTreeMap<String, String> {
    let cgroup = match manifest.host.cgroup {
        crate::manifest::CgroupVersion::V1 => "v1",
        crate::manifest::CgroupVersion::V2 => "v2",
    };
    [
        ("org.criu.checkpoint.engine.name", "baton"),
        ("org.criu.checkpoint.engine.version", env!("CARGO_PKG_VERSION")),
        ("org.criu.checkpoint.criu.version", &manifest.criu.version),
        ("org.criu.checkpoint.host.arch", &manifest.host.arch),
        ("org.criu.checkpoint.host.kernel", &manifest.host.kernel),
        ("org.criu.checkpoint.cgroup.version", cgroup),
        ("org.criu.checkpoint.rootfsImageName", &base.name),
        ("org.criu.checkpoint.rootfsImageSha", base.digest.as_str()),
        ("org.opencontainers.image.base.name", &base.name),
        ("org.opencontainers.image.base.digest", base.digest.as_str()),
        ("org.opencontainers.image.created", &manifest.created),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collector_finds_every_blob() {
        let blob =
            |kind: &str, text: &str| Descriptor::new(kind, Digest::of(text.as_bytes()), 1).expect("a descriptor");
        let layers = [blob(oci::LAYER_GZIP, "a"), blob(MEDIA_MANIFEST, "b")];
        let labels = references(&blob(oci::CONFIG, "config"), &layers);
        assert_eq!(labels.len(), 3);
        assert_eq!(labels["containerd.io/gc.ref.content.config"], Digest::of(b"config").to_string());
        assert_eq!(labels["containerd.io/gc.ref.content.l.0"], Digest::of(b"a").to_string());
        assert_eq!(labels["containerd.io/gc.ref.content.baton.1"], Digest::of(b"b").to_string());
    }
}
