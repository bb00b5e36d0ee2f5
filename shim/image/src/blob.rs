//! Blobs of containerd's content store: read whole where they are small, streamed where they are large, written
//! through an ingest that is aborted when anything goes wrong.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use baton_fault::{Code, Fault, Result};
use containerd_client::services::v1::{
    AbortRequest, Info, InfoRequest, ReadContentRequest, UpdateRequest, WriteAction, WriteContentRequest,
    WriteContentResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::Lease;
use crate::digest::Digest;
use crate::oci::Descriptor;
use crate::status;
use crate::store::Store;

/// Largest blob that is read into memory: image manifests, configs, the checkpoint manifest. Registries refuse
/// manifests larger than this.
pub(crate) const SMALL_MAX: u64 = 4 << 20;

/// Size of the pieces in which blobs travel. containerd reads in pieces of this size and takes up to 16 MiB.
pub(crate) const PIECE: usize = 1 << 20;

/// Pieces that may wait between a thread that compresses and the connection, and the other way round.
pub(crate) const PIECES_WAITING: usize = 4;

/// Part of a name that no other process and no earlier call has used.
pub(crate) fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos());
    format!("{}-{now:x}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The labels of a blob.
pub(crate) type Labels = HashMap<String, String>;

impl Store {
    /// Size of a blob in the store; `None` where it is not there.
    pub(crate) async fn blob_info(&self, digest: &Digest) -> Result<Option<Info>> {
        match self.content().info(self.request(InfoRequest { digest: digest.to_string() })).await {
            Ok(answer) => Ok(answer.into_inner().info),
            Err(status) if status.code() == tonic::Code::NotFound => Ok(None),
            Err(status) => Err(status::fault(format!("look up blob {digest}"), &status)),
        }
    }

    /// Reads a small blob and verifies its size and digest.
    pub(crate) async fn read_small(&self, descriptor: &Descriptor, what: &str) -> Result<Vec<u8>> {
        if descriptor.size > SMALL_MAX {
            let why = format!("{} bytes, more than {SMALL_MAX}", descriptor.size);
            return Err(Fault::new(Code::ImageCorrupt, what, why).advise("this is no checkpoint that Baton wrote"));
        }
        let mut data = Vec::with_capacity(usize::try_from(descriptor.size).unwrap_or(0));
        let mut reader = self.read_stream(descriptor, what).await?;
        while let Some(piece) = reader.next().await? {
            data.extend_from_slice(&piece);
        }
        if Digest::of(&data) != descriptor.digest {
            return Err(damaged(what, &format!("blob {} does not match its digest", descriptor.digest)));
        }
        Ok(data)
    }

    /// Streams a blob; its size is verified, its digest is the caller's to verify.
    pub(crate) async fn read_stream(&self, descriptor: &Descriptor, what: &str) -> Result<Reader> {
        let request = ReadContentRequest { digest: descriptor.digest.to_string(), offset: 0, size: 0 };
        let stream = self.content().read(self.request(request)).await;
        let stream = stream.map_err(|status| read_fault(what, &descriptor.digest, &status))?.into_inner();
        Ok(Reader { stream, left: descriptor.size, digest: descriptor.digest.clone(), what: what.to_owned() })
    }

    /// Stores a small blob under the lease. The labels are set also where the blob exists already.
    pub(crate) async fn put(
        &self,
        lease: &Lease,
        media_type: &str,
        data: Vec<u8>,
        labels: Labels,
    ) -> Result<Descriptor> {
        let digest = Digest::of(&data);
        let size = i64::try_from(data.len()).unwrap_or(i64::MAX);
        let mut ingest = Ingest::open(self, lease, "write a blob").await?;
        ingest.write(data).await?;
        ingest.commit(&digest, labels).await?;
        Descriptor::new(media_type, digest, size)
    }

    async fn set_labels(&self, digest: &Digest, labels: Labels) -> Result<()> {
        if labels.is_empty() {
            return Ok(());
        }
        let paths = labels.keys().map(|key| format!("labels.{key}")).collect();
        let request = UpdateRequest {
            info: Some(Info { digest: digest.to_string(), labels, ..Default::default() }),
            update_mask: Some(prost_types::FieldMask { paths }),
        };
        let answer = self.content().update(self.request(request)).await;
        answer.map_err(|status| status::fault(format!("label blob {digest}"), &status))?;
        Ok(())
    }
}

/// The image is damaged: what to do about it is the same everywhere.
pub(crate) fn damaged(what: &str, why: &str) -> Fault {
    Fault::new(Code::ImageCorrupt, what, why).advise("remove the image and pull it again")
}

fn read_fault(what: &str, digest: &Digest, status: &tonic::Status) -> Fault {
    match status.code() {
        tonic::Code::NotFound | tonic::Code::OutOfRange => {
            damaged(what, &format!("blob {digest} is not in containerd's store"))
        }
        _ => status::fault(what, status),
    }
}

/// A blob on its way out of the store.
pub(crate) struct Reader {
    stream: Streaming<containerd_client::services::v1::ReadContentResponse>,
    left: u64,
    digest: Digest,
    what: String,
}

impl Reader {
    /// The next piece; `None` at the end, which is where the descriptor says.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let message = self.stream.message().await.map_err(|status| read_fault(&self.what, &self.digest, &status))?;
        let Some(piece) = message else {
            if self.left > 0 {
                let why = format!("blob {} is cut: {} bytes are missing", self.digest, self.left);
                return Err(damaged(&self.what, &why));
            }
            return Ok(None);
        };
        self.left = self
            .left
            .checked_sub(piece.data.len() as u64)
            .ok_or_else(|| damaged(&self.what, &format!("blob {} is longer than the image says", self.digest)))?;
        Ok(Some(piece.data))
    }
}

/// A blob on its way into the store. Aborted unless committed.
pub(crate) struct Ingest<'a> {
    store: &'a Store,
    lease: &'a Lease,
    what: &'a str,
    reference: String,
    requests: Option<mpsc::Sender<WriteContentRequest>>,
    answers: Streaming<WriteContentResponse>,
    offset: i64,
    done: bool,
}

impl<'a> Ingest<'a> {
    /// Opens an ingest under the lease.
    pub(crate) async fn open(store: &'a Store, lease: &'a Lease, what: &'a str) -> Result<Ingest<'a>> {
        let reference = format!("baton-{}", unique());
        let (requests, queue) = mpsc::channel(1);
        let first =
            WriteContentRequest { action: WriteAction::Stat.into(), r#ref: reference.clone(), ..Default::default() };
        // The queue takes one message and is empty, so this cannot fail.
        let _ = requests.try_send(first);
        let answer = store.content().write(store.leased(ReceiverStream::new(queue), lease)).await;
        let answers = answer.map_err(|status| status::fault(what, &status))?.into_inner();
        let mut ingest =
            Ingest { store, lease, what, reference, requests: Some(requests), answers, offset: 0, done: false };
        match ingest.answer().await {
            Ok(_) => Ok(ingest),
            Err(status) => Err(ingest.abandon(&status).await),
        }
    }

    /// Writes the next piece.
    pub(crate) async fn write(&mut self, data: Vec<u8>) -> Result<()> {
        let length = i64::try_from(data.len()).unwrap_or(i64::MAX);
        let request =
            WriteContentRequest { action: WriteAction::Write.into(), offset: self.offset, data, ..Default::default() };
        if let Err(status) = self.exchange(request).await {
            return Err(self.abandon(&status).await);
        }
        self.offset += length;
        Ok(())
    }

    /// Ends the blob, which must have this digest. Where the store has it already, the existing one is kept from
    /// collection by the lease.
    pub(crate) async fn commit(mut self, digest: &Digest, labels: Labels) -> Result<()> {
        let request = WriteContentRequest {
            action: WriteAction::Commit.into(),
            offset: self.offset,
            total: self.offset,
            expected: digest.to_string(),
            labels: labels.clone(),
            ..Default::default()
        };
        match self.exchange(request).await {
            Ok(()) => self.done = true,
            Err(status) if status.code() == tonic::Code::AlreadyExists => {
                self.abort().await;
                self.lease.hold(digest).await?;
                // Setting labels (or looking it up) also shows that it was not collected before it was held.
                self.store.set_labels(digest, labels).await?;
                if self.store.blob_info(digest).await?.is_none() {
                    let why = format!("containerd collected {digest} meanwhile");
                    return Err(Fault::new(Code::Unavailable, self.what, why).advise("try again"));
                }
            }
            Err(status) => return Err(self.abandon(&status).await),
        }
        Ok(())
    }

    /// Gives the ingest up: nothing of it stays in the store.
    pub(crate) async fn abort(&mut self) {
        self.done = true;
        self.requests = None;
        // The server holds the ingest's lock until its side of the stream has ended.
        while let Ok(Some(_)) = self.answers.message().await {}
        abort(self.store.clone(), self.reference.clone()).await;
    }

    async fn abandon(&mut self, status: &tonic::Status) -> Fault {
        let fault = status::fault(self.what, status);
        self.abort().await;
        fault
    }

    async fn exchange(&mut self, request: WriteContentRequest) -> std::result::Result<(), tonic::Status> {
        if let Some(requests) = &self.requests {
            // A closed queue means that the server ended the stream: its reason is the answer.
            let _ = requests.send(request).await;
        }
        self.answer().await.map(|_| ())
    }

    async fn answer(&mut self) -> std::result::Result<WriteContentResponse, tonic::Status> {
        self.answers.message().await?.ok_or_else(|| tonic::Status::unavailable("containerd ended the write early"))
    }
}

impl Drop for Ingest<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.requests = None;
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(abort(self.store.clone(), self.reference.clone()));
        }
    }
}

/// Aborts an ingest. A failure is no loss: the ingest belongs to a lease and ends with it.
async fn abort(store: Store, reference: String) {
    let _ = store.content().abort(store.request(AbortRequest { r#ref: reference })).await;
}
