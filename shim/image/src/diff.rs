//! What a container changed in its root filesystem, as a layer in the content store.

use std::collections::HashMap;

use baton_fault::{Code, Fault, Result};
use containerd_client::services::v1::DiffRequest;
use containerd_client::services::v1::diff_client::DiffClient;
use containerd_client::services::v1::snapshots::snapshots_client::SnapshotsClient;
use containerd_client::services::v1::snapshots::{MountsRequest, RemoveSnapshotRequest, ViewSnapshotRequest};
use containerd_client::types::Mount;

use crate::Lease;
use crate::digest::Digest;
use crate::oci::{Descriptor, LAYER_GZIP};
use crate::status;
use crate::store::{ContainerRecord, Store};
use serde::{Deserialize, Serialize};

/// Label that containerd's differ puts on a compressed layer: the digest of what is inside.
const LABEL_UNCOMPRESSED: &str = "containerd.io/uncompressed";

/// A root filesystem layer in the content store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// The compressed blob.
    pub descriptor: Descriptor,
    /// Digest of the tar inside.
    pub diff_id: Digest,
}

impl Store {
    /// The key under which [`Store::diff`] looks at the parent of this container's snapshot. Write it into the
    /// journal before: a later process removes it with [`Store::remove_view`].
    pub fn view_key(lease: &Lease, container: &ContainerRecord) -> String {
        format!("{}-{}-parent", lease.id(), container.id)
    }

    /// Compares the container's active snapshot with its parent and stores the difference as a gzip layer, the kind
    /// that every client unpacks. The container should not write meanwhile.
    ///
    /// # Errors
    /// What containerd answers; the view of the parent is removed in any case.
    pub async fn diff(&self, lease: &Lease, container: &ContainerRecord) -> Result<Layer> {
        let key = Store::view_key(lease, container);
        let parent = self.snapshot_parent(container).await?;
        let left = if parent.is_empty() { Vec::new() } else { self.view(lease, container, &key, parent).await? };
        let layer = self.diff_against(lease, container, left).await;
        let removed = self.remove_view(&container.snapshotter, &key).await;
        // The first failure is the one to tell; a view that stayed belongs to the lease.
        let layer = layer?;
        removed?;
        Ok(layer)
    }

    /// Removes the view that [`Store::diff`] made; one that is gone already is no error.
    ///
    /// # Errors
    /// What containerd answers.
    pub async fn remove_view(&self, snapshotter: &str, key: &str) -> Result<()> {
        let request = RemoveSnapshotRequest { snapshotter: snapshotter.to_owned(), key: key.to_owned() };
        match SnapshotsClient::new(self.channel()).remove(self.request(request)).await {
            Err(status) if status.code() != tonic::Code::NotFound => {
                Err(status::fault(format!("remove snapshot {key}"), &status))
            }
            _ => Ok(()),
        }
    }

    async fn view(&self, lease: &Lease, container: &ContainerRecord, key: &str, parent: String) -> Result<Vec<Mount>> {
        let request = ViewSnapshotRequest {
            snapshotter: container.snapshotter.clone(),
            key: key.to_owned(),
            parent,
            labels: HashMap::new(),
        };
        let answer = SnapshotsClient::new(self.channel()).view(self.leased(request, lease)).await;
        Ok(answer.map_err(|status| status::fault(format!("view snapshot {key}"), &status))?.into_inner().mounts)
    }

    async fn diff_against(&self, lease: &Lease, container: &ContainerRecord, left: Vec<Mount>) -> Result<Layer> {
        let what = format!("take the root filesystem changes of container {}", container.id);
        let request = MountsRequest { snapshotter: container.snapshotter.clone(), key: container.snapshot_key.clone() };
        let answer = SnapshotsClient::new(self.channel()).mounts(self.request(request)).await;
        let right = answer.map_err(|status| status::fault(&what, &status))?.into_inner().mounts;
        // Without a reference of ours containerd aborts its ingest by itself on failure.
        let request = DiffRequest { left, right, media_type: LAYER_GZIP.into(), ..Default::default() };
        let answer = DiffClient::new(self.channel()).diff(self.leased(request, lease)).await;
        let diff = answer.map_err(|status| status::fault(&what, &status))?.into_inner().diff;
        let diff = diff.ok_or_else(|| Fault::new(Code::Unavailable, &what, "containerd sent no layer"))?;
        let digest = Digest::parse(&diff.digest)?;
        lease.hold(&digest).await?;
        let info = self.blob_info(&digest).await?;
        let diff_id = info.and_then(|info| info.labels.get(LABEL_UNCOMPRESSED).cloned()).ok_or_else(|| {
            Fault::new(Code::Unavailable, &what, format!("containerd put no {LABEL_UNCOMPRESSED} label on {digest}"))
        })?;
        let diff_id = Digest::parse(&diff_id)?;
        Ok(Layer { descriptor: Descriptor::new(&diff.media_type, digest, diff.size)?, diff_id })
    }
}
