//! Images made here, as an OCI archive that every client of containerd imports.
//!
//! ```text
//! oci-layout, index.json (names the images), blobs/sha256/{layers, config and manifest of each}
//! ```
//! Images made from the same layer share it.

use std::collections::BTreeMap;
use std::io::{Result, Write};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// A layer under construction. What goes in the same way comes out as the same bytes.
pub struct Layer(Builder<Vec<u8>>);

/// An image of one layer.
pub struct Image<'a> {
    /// Its name, with registry and tag.
    pub name: String,
    /// What it runs, as whom: the member `config` of its configuration.
    pub config: Value,
    /// Its layer, uncompressed.
    pub layer: &'a [u8],
}

impl Default for Layer {
    fn default() -> Layer {
        Layer(Builder::new(Vec::new()))
    }
}

impl Layer {
    /// Adds a folder; those above it must be there.
    pub fn folder(&mut self, path: &str, mode: u32) -> Result<()> {
        let mut header = header(EntryType::Directory, mode, 0);
        self.0.append_data(&mut header, format!("{path}/"), std::io::empty())
    }

    /// Adds a file; the folders above it must be there.
    pub fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        file(&mut self.0, path, mode, bytes)
    }

    /// Adds another name of a file that is there.
    pub fn link(&mut self, path: &str, file: &str) -> Result<()> {
        self.0.append_link(&mut header(EntryType::Link, 0o755, 0), path, file)
    }

    /// Its bytes.
    pub fn finish(self) -> Result<Vec<u8>> {
        self.0.into_inner()
    }
}

/// Writes the archive; blobs that images share are in it once.
pub fn write<W: Write>(out: W, images: &[Image]) -> Result<W> {
    let mut blobs: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let manifests: Vec<Value> = images.iter().map(|image| listed(image, &mut blobs)).collect();
    let index = json!({ "schemaVersion": 2, "manifests": manifests }).to_string();
    let mut archive = Builder::new(out);
    file(&mut archive, "oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    file(&mut archive, "index.json", 0o644, index.as_bytes())?;
    for (digest, bytes) in &blobs {
        file(&mut archive, &format!("blobs/sha256/{digest}"), 0o644, bytes)?;
    }
    archive.into_inner()
}

/// The SHA-256 of something, in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The descriptor of an image, as the archive's index lists it. What it consists of is added to the blobs.
fn listed(image: &Image, blobs: &mut BTreeMap<String, Vec<u8>>) -> Value {
    let mut blob = |kind: &str, bytes: &[u8]| {
        let digest = digest(bytes);
        let descriptor = json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": format!("sha256:{digest}"),
            "size": bytes.len(),
        });
        blobs.entry(digest).or_insert_with(|| bytes.to_vec());
        descriptor
    };
    let layer = blob("layer.v1.tar", image.layer);
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": image.config,
        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
        "history": [{ "created_by": "baton-node" }],
    });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", config.to_string().as_bytes()),
        "layers": [layer],
    });
    let mut listed = blob("manifest.v1+json", manifest.to_string().as_bytes());
    let tag = image.name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
    listed["annotations"] = json!({ "io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": tag });
    listed["platform"] = json!({ "architecture": "amd64", "os": "linux" });
    listed
}

fn file<W: Write>(archive: &mut Builder<W>, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
    archive.append_data(&mut header(EntryType::Regular, mode, bytes.len() as u64), path, bytes)
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_that_everybody_computes() {
        assert_eq!(digest(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn images_of_one_layer_share_it() {
        let image = |name: &str| Image { name: name.to_owned(), config: json!({ "User": name }), layer: b"layer" };
        let bytes = write(Vec::new(), &[image("a/b:1"), image("a/b:2")]).expect("an archive");
        let mut archive = tar::Archive::new(bytes.as_slice());
        let names: Vec<String> = archive
            .entries()
            .expect("entries")
            .map(|entry| entry.expect("an entry").path().expect("a path").to_string_lossy().into_owned())
            .collect();
        // The two files of an archive, one layer, two configurations, two manifests.
        assert_eq!(names.len(), 2 + 1 + 2 + 2, "{names:?}");
        assert!(names.contains(&format!("blobs/sha256/{}", digest(b"layer"))), "{names:?}");
    }
}
