//! The parts of the OCI image format that Baton reads and writes.
//!
//! Only what is looked at is typed; everything else of a base image's config and descriptors is carried along as it
//! is, so that nothing of it is lost.

use std::collections::BTreeMap;

use baton_fault::{Code, Fault, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::Digest;

pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// Docker's names of layers, and OCI's for the same bytes.
const DOCKER_LAYERS: &[(&str, &str)] = &[
    ("application/vnd.docker.image.rootfs.diff.tar", "application/vnd.oci.image.layer.v1.tar"),
    ("application/vnd.docker.image.rootfs.diff.tar.gzip", LAYER_GZIP),
    ("application/vnd.docker.image.rootfs.diff.tar.zstd", "application/vnd.oci.image.layer.v1.tar+zstd"),
];

/// Most layers of an image that are looked at. containerd unpacks 127 at most with overlayfs; the rest are our pages.
const LAYERS_MAX: usize = 70_000;

/// A blob and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Media type.
    pub media_type: String,
    /// Content hash.
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
    /// Everything else (annotations, platform, …), as it was read.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Descriptor {
    /// A descriptor without annotations; `size` as containerd gives it.
    pub(crate) fn new(media_type: &str, digest: Digest, size: i64) -> Result<Descriptor> {
        let size = u64::try_from(size)
            .map_err(|_| Fault::new(Code::ImageCorrupt, format!("read the size of {digest}"), "it is negative"))?;
        Ok(Descriptor { media_type: media_type.to_owned(), digest, size, other: Map::new() })
    }

    pub(crate) fn is_index(&self) -> bool {
        matches!(self.media_type.as_str(), INDEX | DOCKER_INDEX)
    }

    pub(crate) fn is_manifest(&self) -> bool {
        matches!(self.media_type.as_str(), MANIFEST | DOCKER_MANIFEST)
    }

    /// The same blob under OCI's name for its type.
    pub(crate) fn into_oci(mut self) -> Descriptor {
        if let Some((_, oci)) = DOCKER_LAYERS.iter().find(|(docker, _)| *docker == self.media_type) {
            self.media_type = (*oci).to_owned();
        }
        self
    }

    fn platform(&self, key: &str) -> Option<&str> {
        self.other.get("platform")?.get(key)?.as_str()
    }
}

/// An image index: one manifest for each platform.
#[derive(Debug, Deserialize)]
pub(crate) struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

impl Index {
    /// The manifests that fit this machine, best first.
    pub(crate) fn for_this_machine(&self) -> impl Iterator<Item = &Descriptor> {
        self.manifests.iter().filter(|m| {
            m.is_manifest()
                && m.platform("os").is_none_or(|os| os == "linux")
                && m.platform("architecture").is_none_or(|arch| arch == architecture())
        })
    }
}

/// An image manifest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageManifest {
    pub(crate) schema_version: u32,
    #[serde(default)]
    pub(crate) media_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// An image config, kept whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ImageConfig(Map<String, Value>);

impl ImageConfig {
    /// A label of the image.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.0.get("config")?.get("Labels")?.get(key)?.as_str()
    }

    /// Sets a label of the image.
    pub(crate) fn set_label(&mut self, key: &str, value: &str) {
        let config = object(self.0.entry("config").or_insert(Value::Null));
        object(config.entry("Labels").or_insert(Value::Null)).insert(key.into(), value.into());
    }

    /// The digests of the unpacked layers.
    pub(crate) fn diff_ids(&self) -> Result<Vec<Digest>> {
        let ids = self.0.get("rootfs").and_then(|rootfs| rootfs.get("diff_ids")).and_then(Value::as_array);
        let ids =
            ids.ok_or_else(|| Fault::new(Code::ImageCorrupt, "read the image config", "it has no rootfs.diff_ids"))?;
        ids.iter().map(|id| Digest::parse(id.as_str().unwrap_or_default())).collect()
    }

    /// Keeps the first `count` layers and their history.
    pub(crate) fn truncate(&mut self, count: usize) {
        if let Some(ids) = self.0.get_mut("rootfs").and_then(|r| r.get_mut("diff_ids")).and_then(Value::as_array_mut) {
            ids.truncate(count);
        }
        let Some(history) = self.0.get_mut("history").and_then(Value::as_array_mut) else { return };
        let mut layers = 0;
        let keep = history.iter().position(|entry| {
            let empty = entry.get("empty_layer").and_then(Value::as_bool).unwrap_or(false);
            layers += usize::from(!empty);
            layers > count
        });
        history.truncate(keep.unwrap_or(history.len()));
    }

    /// Appends a layer with its history.
    pub(crate) fn append(&mut self, diff_id: &Digest, created: &str, comment: &str) {
        let rootfs = object(self.0.entry("rootfs").or_insert(Value::Null));
        array(rootfs.entry("diff_ids").or_insert(Value::Null)).push(diff_id.as_str().into());
        let mut entry = Map::new();
        entry.insert("created".into(), created.into());
        entry.insert("created_by".into(), "baton save".into());
        entry.insert("comment".into(), comment.into());
        array(self.0.entry("history").or_insert(Value::Null)).push(Value::Object(entry));
        self.0.insert("created".into(), created.into());
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        Value::Object(self.0.clone()).to_string().into_bytes()
    }
}

/// The value as an object; whatever else it was (absent, null) becomes an empty one.
fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

fn array(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(list) => list,
        _ => unreachable!("made an array above"),
    }
}

/// Go's name of this machine's architecture, as images use it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Identity of a stack of unpacked layers, as containerd names the snapshots of images.
pub(crate) fn chain_id(diff_ids: &[Digest]) -> Option<Digest> {
    let (first, rest) = diff_ids.split_first()?;
    Some(rest.iter().fold(first.clone(), |chain, id| Digest::of(format!("{chain} {id}").as_bytes())))
}

pub(crate) fn parse_index(data: &[u8], what: &str) -> Result<Index> {
    let index: Index = parse(data, what)?;
    if index.manifests.len() > LAYERS_MAX {
        return Err(Fault::new(Code::ImageCorrupt, what, format!("{} manifests", index.manifests.len())));
    }
    Ok(index)
}

pub(crate) fn parse_manifest(data: &[u8], what: &str) -> Result<ImageManifest> {
    let manifest: ImageManifest = parse(data, what)?;
    if manifest.layers.len() > LAYERS_MAX {
        return Err(Fault::new(Code::ImageCorrupt, what, format!("{} layers", manifest.layers.len())));
    }
    Ok(manifest)
}

pub(crate) fn parse_config(data: &[u8], what: &str) -> Result<ImageConfig> {
    parse(data, what).map(ImageConfig)
}

fn parse<T: serde::de::DeserializeOwned>(data: &[u8], what: &str) -> Result<T> {
    serde_json::from_slice(data)
        .map_err(|err| Fault::new(Code::ImageCorrupt, what, err).advise("pull the image again, or use another one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_set_where_docker_wrote_null() {
        let mut config = parse_config(br#"{"config":{"Labels":null,"Cmd":["/x"]},"odd":7}"#, "t").expect("config");
        config.set_label("io.baton.checkpoint", "v1");
        assert_eq!(config.label("io.baton.checkpoint"), Some("v1"));
        let text = String::from_utf8(config.to_bytes()).expect("utf-8");
        assert_eq!(text, r#"{"config":{"Labels":{"io.baton.checkpoint":"v1"},"Cmd":["/x"]},"odd":7}"#);
    }

    #[test]
    fn truncating_takes_history_along() {
        let a = Digest::of(b"a");
        let b = Digest::of(b"b");
        let text = format!(
            r#"{{"rootfs":{{"type":"layers","diff_ids":["{a}","{b}"]}},"history":[{{"created_by":"1"}},{{"created_by":"env","empty_layer":true}},{{"created_by":"2"}}]}}"#
        );
        let mut config = parse_config(text.as_bytes(), "t").expect("config");
        config.truncate(1);
        assert_eq!(config.diff_ids().expect("ids"), vec![a]);
        let text = String::from_utf8(config.to_bytes()).expect("utf-8");
        assert!(text.contains("env") && !text.contains(r#""2""#), "{text}");
    }

    #[test]
    fn the_chain_of_one_layer_is_the_layer() {
        let a = Digest::of(b"a");
        assert_eq!(chain_id(std::slice::from_ref(&a)), Some(a.clone()));
        let b = Digest::of(b"b");
        assert_eq!(chain_id(&[a.clone(), b.clone()]), Some(Digest::of(format!("{a} {b}").as_bytes())));
        assert_eq!(chain_id(&[]), None);
    }

    #[test]
    fn an_index_gives_the_manifest_of_this_machine() {
        let (other, mine, attestation) = (Digest::of(b"o"), Digest::of(b"m"), Digest::of(b"x"));
        let arch = architecture();
        let text = format!(
            r#"{{"manifests":[
            {{"mediaType":"{MANIFEST}","digest":"{other}","size":1,"platform":{{"os":"linux","architecture":"s390x"}}}},
            {{"mediaType":"{MANIFEST}","digest":"{mine}","size":1,"platform":{{"os":"linux","architecture":"{arch}"}}}},
            {{"mediaType":"{MANIFEST}","digest":"{attestation}","size":1,"platform":{{"os":"unknown","architecture":"unknown"}}}}]}}"#
        );
        let index = parse_index(text.as_bytes(), "t").expect("index");
        let fit: Vec<_> = index.for_this_machine().map(|m| m.digest.clone()).collect();
        assert_eq!(fit, vec![mine]);
    }
}
