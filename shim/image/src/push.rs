//! Pushing an image to a registry, by containerd's transfer service: its hosts configuration and trust are used.

use std::path::Path;
use std::time::Duration;

use baton_fault::{Code, Fault, Result};
use containerd_client::services::v1::streaming_client::StreamingClient;
use containerd_client::services::v1::transfer_client::TransferClient;
use containerd_client::services::v1::{StreamInit, TransferOptions, TransferRequest};
use containerd_client::to_any;
use containerd_client::types::transfer::{ImageStore, OciRegistry, RegistryResolver};
use prost_types::Any;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::digest::Digest;
use crate::status;
use crate::store::Store;

/// Where containerd's hosts configuration lies by convention. The transfer service must be told; it has no default.
pub const DEFAULT_HOSTS_DIR: &str = "/etc/containerd/certs.d";

/// How long a push may make no progress. containerd bounds connecting by itself, not the waiting for an answer; a
/// registry takes this long at most to check the last bytes of a large blob.
const SILENCE: Duration = Duration::from_secs(300);

/// What was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The reference, in the store and in the registry.
    pub reference: String,
    /// What it points to.
    pub digest: Digest,
}

impl Store {
    /// Pushes an image of the store to the registry in its name. `hosts_dir` is containerd's directory of registry
    /// hosts and certificates as this node has it; one that does not exist is left out.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such image, `REGISTRY` with what the registry (or the way to it) said.
    pub async fn push(&self, reference: &str, hosts_dir: &Path) -> Result<Pushed> {
        let target = self.image_target(reference).await?;
        let host_dir = if hosts_dir.is_dir() { hosts_dir.display().to_string() } else { String::new() };
        let source = ImageStore { name: reference.to_owned(), ..Default::default() };
        let destination = OciRegistry {
            reference: reference.to_owned(),
            resolver: Some(RegistryResolver { host_dir, ..Default::default() }),
        };
        let mut progress = Progress::open(self).await?;
        let request = TransferRequest {
            source: Some(to_any(&source)),
            destination: Some(to_any(&destination)),
            options: Some(TransferOptions { progress_stream: progress.id.clone() }),
        };
        let mut client = TransferClient::new(self.channel());
        // Dropping the call, as the second branch does, makes containerd give the push up.
        let answer = tokio::select! {
            answer = client.transfer(self.request(request)) => answer,
            () = progress.silence(SILENCE) => {
                return Err(registry_fault(reference, &format!("no progress for {} s", SILENCE.as_secs())));
            }
        };
        answer.map_err(|status| push_fault(reference, &status))?;
        Ok(Pushed { reference: reference.to_owned(), digest: target.digest })
    }
}

/// What containerd tells of a transfer while it goes on: a message each time that it has come further.
struct Progress {
    id: String,
    messages: Streaming<Any>,
    /// The stream lasts as long as our side of it.
    _ours: mpsc::Sender<Any>,
}

impl Progress {
    async fn open(store: &Store) -> Result<Progress> {
        let what = "follow a transfer of containerd's";
        let id = format!("baton-push-{}", crate::blob::unique());
        let (ours, queue) = mpsc::channel(1);
        // The queue takes one message and is empty, so this cannot fail.
        let _ = ours.try_send(to_any(&StreamInit { id: id.clone() }));
        let answer = StreamingClient::new(store.channel()).stream(store.request(ReceiverStream::new(queue))).await;
        let mut messages = answer.map_err(|status| status::fault(what, &status))?.into_inner();
        // The first message says that the stream is registered.
        messages.message().await.map_err(|status| status::fault(what, &status))?;
        Ok(Progress { id, messages, _ours: ours })
    }

    /// Returns when nothing has been heard for so long.
    async fn silence(&mut self, bound: Duration) {
        loop {
            match tokio::time::timeout(bound, self.messages.message()).await {
                Ok(Ok(Some(_))) => {}
                // The stream has ended, as the transfer is about to; the bound still holds.
                Ok(_) => return tokio::time::sleep(bound).await,
                Err(_) => return,
            }
        }
    }
}

fn push_fault(reference: &str, status: &tonic::Status) -> Fault {
    let what = format!("push {reference}");
    if std::error::Error::source(status).is_some() {
        // The connection to containerd broke; the registry has said nothing.
        return status::fault(what, status);
    }
    registry_fault(reference, status.message())
}

fn registry_fault(reference: &str, why: &str) -> Fault {
    Fault::new(Code::Registry, format!("push {reference}"), why)
        .advise("check the registry's name, that it answers, and containerd's hosts directory for it; the image is in containerd's store")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_push_has_the_registrys_words() {
        let fault = push_fault("r/x:1", &tonic::Status::unknown("unexpected status: 403 Forbidden"));
        assert_eq!(fault.code, Code::Registry);
        assert!(fault.to_string().contains("403 Forbidden"), "{fault}");
    }
}
