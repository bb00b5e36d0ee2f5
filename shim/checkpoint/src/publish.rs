//! Image work in a process of its own. Compressing and moving gigabytes must not grow or endanger the shim, which
//! holds running containers; so it runs `baton` with an order on standard input and reads the outcome from its
//! standard output.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use baton_fault::{Code, Fault, Result};
use baton_image::{BaseImage, Layer, Manifest, Publication, Store};
use serde::{Deserialize, Serialize};

/// The verb of `baton` that carries an [`Order`] out.
pub const VERB: &str = "image-worker";

/// Where containerd is, and which namespace of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containerd {
    /// Its gRPC socket.
    pub socket: PathBuf,
    /// The namespace.
    pub namespace: String,
}

impl Containerd {
    /// Connects.
    ///
    /// # Errors
    /// `UNAVAILABLE`.
    pub async fn connect(&self) -> Result<Store> {
        Store::connect(&self.socket, &self.namespace).await
    }
}

/// What the worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Write a staged checkpoint into containerd's store as an image.
    Publish(Box<PublishOrder>),
    /// Push an image to its registry.
    Push {
        /// Where the image is.
        containerd: Containerd,
        /// Its name.
        reference: String,
    },
    /// Bring a checkpoint out of containerd's store into a folder for CRIU.
    Fetch {
        /// Where the image is.
        containerd: Containerd,
        /// Its name.
        reference: String,
        /// The digest that passed the gate.
        digest: String,
        /// The folder, which must not exist yet.
        into: PathBuf,
    },
}

/// A staged checkpoint and the image that it becomes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PublishOrder {
    /// Where the image goes.
    pub containerd: Containerd,
    /// The lease under which everything is written.
    pub lease: String,
    /// The image that the container was made from.
    pub base: BaseImage,
    /// The root filesystem's changes.
    pub layer: Option<Layer>,
    /// Folder with CRIU's images.
    pub staging: PathBuf,
    /// The checkpoint manifest, without segments.
    pub manifest: Manifest,
    /// Name of the image.
    pub reference: String,
    /// zstd level.
    pub level: i32,
}

/// What the worker did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Digest of the image.
    pub digest: String,
    /// Bytes of all blobs of the image.
    pub bytes: u64,
    /// Bytes of the blobs that hold process memory.
    pub bytes_pages: u64,
    /// Bytes of process memory before compression.
    pub bytes_memory: u64,
}

/// Carries orders out in a process of its own.
#[async_trait]
pub trait Worker: Send + Sync {
    /// Carries one order out.
    async fn work(&self, order: &Order) -> Result<Report>;
}

impl Order {
    /// Reads an order from its JSON.
    ///
    /// # Errors
    /// `USAGE`.
    pub fn parse(text: &[u8]) -> Result<Order> {
        serde_json::from_slice(text).map_err(|err| {
            Fault::new(Code::Usage, "read an order for image work", err).advise("this verb is for the shim's use")
        })
    }

    /// Carries it out in this process.
    ///
    /// # Errors
    /// What containerd, the disk or the registry answer.
    pub async fn carry_out(self) -> Result<Report> {
        match self {
            Order::Publish(order) => publish(*order).await,
            Order::Push { containerd, reference } => {
                let store = containerd.connect().await?;
                let pushed = store.push(&reference, Path::new(baton_image::DEFAULT_HOSTS_DIR)).await?;
                Ok(Report { digest: pushed.digest.to_string(), ..Report::default() })
            }
            Order::Fetch { containerd, reference, digest, into } => {
                let store = containerd.connect().await?;
                let checkpoint = store.checkpoint_required(&reference).await?;
                if checkpoint.digest.as_str() != digest {
                    return Err(Fault::new(
                        Code::State,
                        format!("fetch {reference}"),
                        format!("it names {} now, {digest} passed the gate", checkpoint.digest),
                    )
                    .advise("start the container again"));
                }
                store.fetch(&checkpoint, &into).await?;
                Ok(Report { digest, ..Report::default() })
            }
        }
    }
}

async fn publish(order: PublishOrder) -> Result<Report> {
    let store = order.containerd.connect().await?;
    let lease = store.borrow_lease(&order.lease)?;
    let published = store
        .publish(
            &lease,
            Publication {
                base: &order.base,
                layer: order.layer,
                staging: &order.staging,
                manifest: order.manifest,
                reference: &order.reference,
                level: order.level,
            },
        )
        .await?;
    Ok(Report {
        digest: published.digest.to_string(),
        bytes: published.bytes_total,
        bytes_pages: published.bytes_pages,
        bytes_memory: published.bytes_pages_raw,
    })
}
