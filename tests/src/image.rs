//! Checkpoint images as any client of containerd sees them, and forged ones.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, Header};

use crate::machine::Machine;

/// Media type of the checkpoint's small manifest.
pub const MANIFEST: &str = "application/vnd.baton.checkpoint.manifest.v1+json";
/// Media type of CRIU's small images.
pub const STATE: &str = "application/vnd.baton.checkpoint.state.v1.tar+zstd";
/// Media type of process memory.
pub const PAGES: &str = "application/vnd.baton.checkpoint.pages.v1+zstd";

/// The SHA-256 of something, as images name it.
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

impl Machine {
    /// The manifest of an image, and its digest.
    ///
    /// # Panics
    /// When there is no such image.
    pub fn image_manifest(&self, reference: &str) -> (Value, String) {
        let list = self.ok(&["ctr", "image", "ls"]);
        let line = list.lines().find(|line| line.split_whitespace().next() == Some(reference));
        let digest = line.and_then(|line| line.split_whitespace().nth(2)).expect("an image of that name").to_owned();
        let text = self.ok(&["ctr", "content", "get", &digest]);
        (serde_json::from_str(&text).expect("a manifest"), digest)
    }

    /// Digests of an image's blobs of one media type.
    pub fn blobs(&self, reference: &str, media_type: &str) -> Vec<String> {
        let (manifest, _) = self.image_manifest(reference);
        let layers = manifest["layers"].as_array().expect("layers");
        let of_type = layers.iter().filter(|layer| layer["mediaType"] == media_type);
        of_type.map(|layer| layer["digest"].as_str().expect("a digest").to_owned()).collect()
    }

    /// The file in containerd's content store that holds a blob.
    pub fn blob_file(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        self.root_path("/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256").join(hex)
    }

    /// Bytes of a blob.
    ///
    /// # Panics
    /// When it is not there.
    pub fn blob(&self, digest: &str) -> Vec<u8> {
        fs::read(self.blob_file(digest)).expect("a blob")
    }

    /// Imports an image that is like `original`, except for what `change` does to its layers' descriptors. Blobs
    /// that `change` returns go in with it. Every digest and size is right: only what they hold is not.
    ///
    /// # Panics
    /// When containerd does not take it.
    pub fn forge(&self, original: &str, name: &str, change: impl FnOnce(&mut Vec<Value>) -> Vec<Vec<u8>>) {
        let (mut manifest, _) = self.image_manifest(original);
        let mut layers = manifest["layers"].as_array().expect("layers").clone();
        let mut blobs = change(&mut layers);
        for descriptor in layers.iter().chain([&manifest["config"]]) {
            let digest = descriptor["digest"].as_str().expect("a digest");
            if self.blob_file(digest).exists() {
                blobs.push(self.blob(digest));
            }
        }
        manifest["layers"] = Value::Array(layers);
        let manifest = manifest.to_string().into_bytes();
        let index = json!({
            "schemaVersion": 2,
            "manifests": [{
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "digest": digest(&manifest),
                "size": manifest.len(),
                "platform": { "architecture": "amd64", "os": "linux" },
                "annotations": { "io.containerd.image.name": name },
            }],
        });
        blobs.push(manifest);
        let mut archive = Builder::new(Vec::new());
        let mut add = |path: &str, bytes: &[u8]| {
            let mut header = Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, path, bytes).expect("an archive in memory");
        };
        add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
        add("index.json", index.to_string().as_bytes());
        for blob in &blobs {
            add(&digest(blob).replace(':', "/").replace("sha256", "blobs/sha256"), blob);
        }
        self.write("/tmp/forged.tar", archive.into_inner().expect("an archive in memory"));
        self.ok(&["ctr", "image", "import", "/tmp/forged.tar"]);
    }
}

/// A descriptor of a blob.
pub fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(bytes), "size": bytes.len() })
}
