//! The base image of a container: what a checkpoint image is put on.

use baton_fault::{Code, Fault, Result};
use containerd_client::services::v1::snapshots::StatSnapshotRequest;
use containerd_client::services::v1::snapshots::snapshots_client::SnapshotsClient;
use serde::{Deserialize, Serialize};

use crate::Lease;
use crate::blob::Labels;
use crate::digest::Digest;
use crate::oci::{Descriptor, ImageConfig, chain_id};
use crate::status;
use crate::store::{ContainerRecord, Store};

/// The layers and the config that a container's root filesystem was made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BaseImage {
    /// The image's name.
    pub name: String,
    /// Digest of the image's root (index or manifest).
    pub digest: Digest,
    pub(crate) config: ImageConfig,
    pub(crate) layers: Vec<Descriptor>,
    /// The snapshotter that has the layers unpacked, and the name of the topmost there.
    pub(crate) snapshotter: String,
    pub(crate) snapshot: String,
}

impl Store {
    /// Finds the base image of a container and checks that a checkpoint can be put on it: that the image which
    /// containerd has under the container's image name is (or begins with) the one that its root filesystem was
    /// made of, and that its layers are still in the content store.
    ///
    /// # Errors
    /// `STATE` when the container has no image or the name means another image by now, `NOT_FOUND` when image or
    /// layers are gone.
    pub async fn base_image(&self, container: &ContainerRecord) -> Result<BaseImage> {
        let what = format!("find the base image of container {}", container.id);
        if container.image.is_empty() || container.snapshot_key.is_empty() {
            return Err(Fault::new(Code::State, what, "it was started from a bare directory, not from an image")
                .advise("start it from an image"));
        }
        let image = self.resolve(&container.image).await?;
        let mut config = image.config;
        let diff_ids = config.diff_ids()?;
        let mut layers: Vec<_> =
            image.manifest.layers.into_iter().filter(|layer| !is_ours(layer)).map(Descriptor::into_oci).collect();
        if layers.len() != diff_ids.len() {
            let why = format!("{} has {} layers and {} diff_ids", container.image, layers.len(), diff_ids.len());
            return Err(Fault::new(Code::ImageCorrupt, what, why).advise("pull the image again"));
        }
        let parent = self.snapshot_parent(container).await?;
        let count = layers_of(&diff_ids, &parent).ok_or_else(|| {
            let why = format!("the name {} means another image by now", container.image);
            Fault::new(Code::State, &what, why).advise("tag the image that it was started from with that name again")
        })?;
        layers.truncate(count);
        config.truncate(count);
        for layer in &layers {
            if self.blob_info(&layer.digest).await?.is_none() {
                let why = format!("layer {} of {} is not in containerd's content store", layer.digest, container.image);
                return Err(Fault::new(Code::NotFound, what, why)
                    .advise("pull the image again; where CRI's discard_unpacked_layers is set, unset it"));
            }
        }
        let (name, snapshotter) = (container.image.clone(), container.snapshotter.clone());
        Ok(BaseImage { name, digest: image.root.digest, config, layers, snapshotter, snapshot: parent })
    }

    /// Name of the snapshot under the container's active one; empty where there is none.
    pub(crate) async fn snapshot_parent(&self, container: &ContainerRecord) -> Result<String> {
        let request =
            StatSnapshotRequest { snapshotter: container.snapshotter.clone(), key: container.snapshot_key.clone() };
        let answer = SnapshotsClient::new(self.channel()).stat(self.request(request)).await;
        let answer =
            answer.map_err(|status| status::fault(format!("look up snapshot {}", container.snapshot_key), &status))?;
        Ok(answer.into_inner().info.unwrap_or_default().parent)
    }
}

impl BaseImage {
    /// The label by which a config that names these layers keeps them unpacked, as containerd labels the config of an
    /// image that it has unpacked itself. Without it the next run of a checkpoint finds them there, goes on to its own
    /// layer, and loses them meanwhile to the collector, once the images of earlier checkpoints are gone.
    pub(crate) fn unpacked(&self) -> Labels {
        if self.snapshot.is_empty() {
            return Labels::new();
        }
        Labels::from([(format!("containerd.io/gc.ref.snapshot.{}", self.snapshotter), self.snapshot.clone())])
    }

    /// Keeps the base image's layers from collection while the lease lasts.
    pub(crate) async fn hold(&self, lease: &Lease) -> Result<()> {
        for layer in &self.layers {
            lease.hold(&layer.digest).await?;
        }
        Ok(())
    }
}

/// Whether a blob is one that Baton added to an image, and not a layer.
pub(crate) fn is_ours(descriptor: &Descriptor) -> bool {
    descriptor.media_type.starts_with("application/vnd.baton.")
}

/// How many of the image's layers lie under a snapshot whose parent has this name: all of them, or the first ones
/// where the name was given to a later checkpoint of the same container.
fn layers_of(diff_ids: &[Digest], parent: &str) -> Option<usize> {
    if parent.is_empty() {
        return Some(0);
    }
    // User-namespace remapping derives the parent's name from the chain's.
    (1..=diff_ids.len())
        .rev()
        .find(|count| chain_id(&diff_ids[..*count]).is_some_and(|chain| parent.starts_with(chain.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_under_a_container_are_found_by_their_chain() {
        let ids = [Digest::of(b"a"), Digest::of(b"b"), Digest::of(b"c")];
        let chain = |n: usize| chain_id(&ids[..n]).expect("not empty").to_string();
        assert_eq!(layers_of(&ids, &chain(3)), Some(3));
        assert_eq!(layers_of(&ids, &chain(2)), Some(2));
        assert_eq!(layers_of(&ids, &format!("{}-0-100000", chain(1))), Some(1));
        assert_eq!(layers_of(&ids, "sha256:other"), None);
        assert_eq!(layers_of(&ids, ""), Some(0));
    }
}
