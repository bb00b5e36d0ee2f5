//! The connection to containerd, and the records of its that Baton reads: containers and images.

use std::collections::HashMap;
use std::path::Path;

use baton_fault::{Code, Fault, Result};
use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::content_client::ContentClient;
use containerd_client::services::v1::images_client::ImagesClient;
use containerd_client::services::v1::{DeleteImageRequest, GetContainerRequest, GetImageRequest, Image};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};

use crate::digest::Digest;
use crate::oci::Descriptor;
use crate::status;

/// Flow-control window of one stream in bytes: the default of 64 KiB would halt a blob read after each small
/// piece, and two messages of containerd's content service (1 MiB each) shall be under way.
const STREAM_WINDOW: u32 = 2 << 20;

/// containerd, in one namespace.
#[derive(Clone)]
pub struct Store {
    channel: Channel,
    namespace: MetadataValue<Ascii>,
}

/// What Baton needs to know of a container of containerd's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRecord {
    /// The container's id.
    pub id: String,
    /// The name of the image that it was created from; empty for a bare root filesystem.
    pub image: String,
    /// Its labels.
    pub labels: HashMap<String, String>,
    /// The snapshotter that holds its root filesystem.
    pub snapshotter: String,
    /// The key of its active snapshot.
    pub snapshot_key: String,
}

impl Store {
    /// Connects to containerd's gRPC socket; every call works in `namespace`.
    ///
    /// # Errors
    /// `UNAVAILABLE` when nothing answers there, `USAGE` for a namespace that containerd could not have.
    pub async fn connect(socket: &Path, namespace: &str) -> Result<Store> {
        let what = || format!("connect to containerd at {}", socket.display());
        let parsed = MetadataValue::try_from(namespace).ok().filter(|_| !namespace.is_empty()).ok_or_else(|| {
            Fault::new(Code::Usage, format!("use containerd's namespace \"{namespace}\""), "not a namespace name")
        })?;
        let unreachable = |err: tonic::transport::Error| {
            Fault::new(Code::Unavailable, what(), status::innermost(&err))
                .advise("start containerd, or set paths.containerd")
        };
        let channel = Endpoint::from_shared(format!("unix://{}", socket.display()))
            .map_err(unreachable)?
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(2 * STREAM_WINDOW)
            .connect()
            .await
            .map_err(unreachable)?;
        Ok(Store { channel, namespace: parsed })
    }

    /// The record of a container.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is none.
    pub async fn container(&self, id: &str) -> Result<ContainerRecord> {
        let what = format!("look up container {id}");
        let mut client = ContainersClient::new(self.channel());
        let answer = client.get(self.request(GetContainerRequest { id: id.to_owned() })).await;
        let found = answer.map_err(|status| status::fault(&what, &status))?.into_inner().container;
        let record = found.ok_or_else(|| Fault::new(Code::Unavailable, &what, "containerd sent no record"))?;
        Ok(ContainerRecord {
            id: record.id,
            image: record.image,
            labels: record.labels,
            snapshotter: record.snapshotter,
            snapshot_key: record.snapshot_key,
        })
    }

    /// Removes an image record; its blobs go with containerd's next collection.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no image of that name.
    pub async fn remove(&self, reference: &str) -> Result<()> {
        let request = DeleteImageRequest { name: reference.to_owned(), ..Default::default() };
        let answer = ImagesClient::new(self.channel()).delete(self.request(request)).await;
        answer.map_err(|status| status::fault(format!("remove image {reference}"), &status))?;
        Ok(())
    }

    /// The root descriptor of an image.
    pub(crate) async fn image_target(&self, reference: &str) -> Result<Descriptor> {
        let what = format!("look up image {reference}");
        let answer = ImagesClient::new(self.channel())
            .get(self.request(GetImageRequest { name: reference.to_owned() }))
            .await
            .map_err(|status| match status.code() {
                tonic::Code::NotFound => {
                    Fault::new(Code::NotFound, &what, "containerd has no image of that name in this namespace")
                        .advise("pull it first, and write the reference in full")
                }
                _ => status::fault(&what, &status),
            })?;
        let target = answer.into_inner().image.and_then(|image: Image| image.target);
        let target = target.ok_or_else(|| Fault::new(Code::Unavailable, &what, "containerd sent no target"))?;
        Descriptor::new(&target.media_type, Digest::parse(&target.digest)?, target.size)
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(crate) fn content(&self) -> ContentClient<Channel> {
        ContentClient::new(self.channel())
    }

    /// A request in this namespace.
    pub(crate) fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.metadata_mut().insert("containerd-namespace", self.namespace.clone());
        request
    }

    /// A request in this namespace whose results belong to the lease.
    pub(crate) fn leased<T>(&self, message: T, lease: &crate::Lease) -> tonic::Request<T> {
        let mut request = self.request(message);
        request.metadata_mut().insert("containerd-lease", lease.header());
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_socket_that_is_not_there_is_unavailable() {
        let fault =
            Store::connect(Path::new("/nonexistent/containerd.sock"), "default").await.err().expect("no socket");
        assert_eq!(fault.code, Code::Unavailable);
        assert!(fault.to_string().contains("/nonexistent/containerd.sock"), "{fault}");
        assert!(fault.to_string().contains("No such file"), "{fault}");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_impossible_namespace_is_refused() {
        for namespace in ["", "a\nb"] {
            let fault = Store::connect(Path::new("/nonexistent"), namespace).await.err().expect("refused");
            assert_eq!(fault.code, Code::Usage);
        }
    }
}
