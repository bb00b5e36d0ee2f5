//! The checkpoint manifest: the small blob that says what was saved, where, and what a node needs to restore it.
//!
//! It is read before anything large is, and it comes from outside, so the parser is strict: the whole is bounded,
//! every list and every text in it is, an unknown field or format number is refused.
//!
//! ```json
//! {
//!   "format": 1,
//!   "created": "2026-11-30T14:00:00Z",
//!   "source": { "container": "job", "image": "localhost/baton/counter:1", "image_digest": "sha256:…", "node": "a" },
//!   "host": { "arch": "x86_64", "kernel": "6.18.0", "cpu_model": "…", "cpu_flags": ["avx2", "…"], "cgroup": "v1" },
//!   "criu": { "version": "4.2" },
//!   "driver": { "version": "580.95.05", "cuda_version": 13000 },
//!   "gpus": [ { "uuid": "GPU-…", "model": "NVIDIA H100 80GB HBM3", "compute_capability": [9, 0],
//!               "pci_bus_id": "00000000:17:00.0", "kind": "whole", "memory_total": 85520809984, "memory_used": 1073741824 } ],
//!   "processes": [ { "pid": 1, "command": "counter", "gpu": { "bytes": 1073741824 } } ],
//!   "mounts": ["/proc", "/dev", "…"],
//!   "segments": [ { "file": "pages-1.img", "offset": 0, "length": 1074003968, "digest": "sha256:…", "stored": 3145728 } ],
//!   "state": { "digest": "sha256:…", "bytes": 98304 }
//! }
//! ```
//!
//! All sizes are bytes. `driver` is absent and `gpus` empty for a container without a GPU. A file's segments lie one after the other
//! without a gap; `length` is uncompressed, `stored` is the blob's size. `state.bytes` is the sum of the sizes of
//! the files in the state archive.

use baton_fault::{Code, Fault, Result};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// The format number that this Baton writes and reads.
pub const FORMAT: u32 = 1;

/// Largest manifest, in bytes; what registries and containerd accept for a manifest, too.
pub const MANIFEST_MAX: usize = 4 << 20;
/// Most GPUs of one container; the driver itself has 32 whole cards or 7 × 16 MIG instances at most.
pub const GPUS_MAX: usize = 128;
/// Most processes; 2^22 is the kernel's bound, a container with more than this is not saved in one piece.
pub const PROCESSES_MAX: usize = 1 << 16;
/// Most mount points; the kernel's default limit is 100000 for all of a namespace.
pub const MOUNTS_MAX: usize = 1 << 12;
/// Most segments: 64 MiB each, that is 4 TiB of memory.
pub const SEGMENTS_MAX: usize = 1 << 16;
/// Most CPU flags; a current processor has about 150.
pub const CPU_FLAGS_MAX: usize = 1 << 10;
/// Longest text in it, in bytes: PATH_MAX.
pub const TEXT_MAX: usize = 4096;
/// Most bytes of process memory in one image.
pub const PAGES_BYTES_MAX: u64 = 4 << 40;
/// Most bytes of CRIU's small images; the content of a tmpfs and deleted files are among them.
pub const STATE_BYTES_MAX: u64 = 64 << 30;

/// What was saved. See the [module](self) for the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// When it was saved, in RFC 3339, UTC.
    pub created: String,
    /// What it was saved from.
    pub source: Source,
    /// The machine it ran on.
    pub host: Host,
    /// The CRIU that wrote it.
    pub criu: Criu,
    /// The NVIDIA driver; absent for a container without a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// The GPUs that the container had, in the order in which CUDA numbers them.
    pub gpus: Vec<Gpu>,
    /// The container's processes.
    pub processes: Vec<Process>,
    /// Destinations of its mounts.
    pub mounts: Vec<String>,
    /// Where the memory pages are; filled in by `publish`.
    pub segments: Vec<Segment>,
    /// Where everything else is; filled in by `publish`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
}

/// What a checkpoint was saved from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The container's id.
    pub container: String,
    /// Its image.
    pub image: String,
    /// That image's digest.
    pub image_digest: String,
    /// The node's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// The machine that a checkpoint was saved on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Machine architecture as `uname -m` prints it.
    pub arch: String,
    /// Kernel release.
    pub kernel: String,
    /// Name of the CPU.
    pub cpu_model: String,
    /// The CPU's features, as in /proc/cpuinfo.
    pub cpu_flags: Vec<String>,
    /// The cgroup version.
    pub cgroup: CgroupVersion,
}

/// The cgroup version of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupVersion {
    /// cgroup v1, or both with controllers in v1.
    V1,
    /// cgroup v2 alone.
    V2,
}

/// A CRIU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criu {
    /// Its version, `4.2` or `4.2.1`.
    pub version: String,
}

/// An NVIDIA driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Driver {
    /// Version of the kernel module.
    pub version: String,
    /// CUDA version of the driver: 1000 × major + 10 × minor.
    pub cuda_version: u32,
}

/// A GPU that a container had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// `GPU-…`.
    pub uuid: String,
    /// The product's name.
    pub model: String,
    /// Major and minor.
    pub compute_capability: [u32; 2],
    /// PCI bus id.
    pub pci_bus_id: String,
    /// What of the card it was.
    pub kind: GpuKind,
    /// Memory of the card, in bytes.
    pub memory_total: u64,
    /// Memory that the container's processes had on it, in bytes.
    pub memory_used: u64,
}

/// What of a card a container had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GpuKind {
    /// All of it.
    Whole,
}

/// A process of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its pid in the container's pid namespace.
    pub pid: u32,
    /// Its name, as in /proc/PID/comm.
    pub command: String,
    /// Set for a process that had state on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<ProcessGpu>,
}

/// What a process had on the GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessGpu {
    /// Bytes of GPU memory.
    pub bytes: u64,
}

/// A stretch of one pages file, stored as one blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// The file: `pages-<number>.img`.
    pub file: String,
    /// Where in the file it begins.
    pub offset: u64,
    /// Its length, uncompressed.
    pub length: u64,
    /// The blob.
    pub digest: Digest,
    /// The blob's size.
    pub stored: u64,
}

/// The archive of everything but the pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The blob.
    pub digest: Digest,
    /// Sum of the sizes of the files in it.
    pub bytes: u64,
}

impl Manifest {
    /// Parses and checks a manifest as it comes out of an image.
    ///
    /// # Errors
    /// `IMAGE_CORRUPT`, saying what is wrong, or that a newer Baton wrote it.
    pub fn parse(data: &[u8]) -> Result<Manifest> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        if data.len() > MANIFEST_MAX {
            return Err(corrupt(format!("{} bytes, more than {MANIFEST_MAX}", data.len())));
        }
        let Format { format } = serde_json::from_slice(data).map_err(corrupt)?;
        if format != FORMAT {
            return Err(Fault::new(
                Code::ImageCorrupt,
                WHAT,
                format!("it has format {format}, and this Baton reads format {FORMAT}"),
            )
            .advise("a newer Baton is needed on this node"));
        }
        let manifest: Manifest = serde_json::from_slice(data).map_err(corrupt)?;
        manifest.check()?;
        if manifest.state.is_none() {
            return Err(corrupt("it has no state"));
        }
        Ok(manifest)
    }

    /// The text that goes into an image.
    ///
    /// # Errors
    /// `USAGE` when it holds more than [`Manifest::parse`] would accept.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let refuse = |why: String| {
            Fault::new(Code::State, "write the checkpoint manifest", why).advise("such a container cannot be saved")
        };
        self.check().map_err(|fault| refuse(fault.to_string()))?;
        let data = serde_json::to_vec(self).map_err(|err| refuse(err.to_string()))?;
        if data.len() > MANIFEST_MAX {
            return Err(refuse(format!("{} bytes, more than {MANIFEST_MAX}", data.len())));
        }
        Ok(data)
    }

    /// Bytes of process memory, uncompressed.
    pub fn pages_bytes(&self) -> u64 {
        self.segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.length))
    }

    fn check(&self) -> Result<()> {
        for (name, count, max) in [
            ("gpus", self.gpus.len(), GPUS_MAX),
            ("processes", self.processes.len(), PROCESSES_MAX),
            ("mounts", self.mounts.len(), MOUNTS_MAX),
            ("segments", self.segments.len(), SEGMENTS_MAX),
            ("host.cpu_flags", self.host.cpu_flags.len(), CPU_FLAGS_MAX),
        ] {
            if count > max {
                return Err(corrupt(format!("it has {count} {name}, more than {max}")));
            }
        }
        if self.gpus.is_empty() != self.driver.is_none() {
            return Err(corrupt("GPUs and a driver go together, and it has one without the other"));
        }
        if let Some(process) = self.processes.iter().find(|process| process.gpu.is_some() && self.gpus.is_empty()) {
            return Err(corrupt(format!("process {} has GPU memory, and there is no GPU", process.pid)));
        }
        if let Some(text) = self.texts().find(|text| text.len() > TEXT_MAX) {
            return Err(corrupt(format!("it has a text of {} bytes, more than {TEXT_MAX}", text.len())));
        }
        if self.pages_bytes() > PAGES_BYTES_MAX {
            return Err(corrupt(format!("it has more than {PAGES_BYTES_MAX} bytes of memory")));
        }
        if let Some(state) = self.state.as_ref().filter(|state| state.bytes > STATE_BYTES_MAX) {
            return Err(corrupt(format!("it has {} bytes of state, more than {STATE_BYTES_MAX}", state.bytes)));
        }
        self.check_segments()
    }

    /// Every file's segments lie one after the other, and each file has one run of them.
    fn check_segments(&self) -> Result<()> {
        let mut seen = std::collections::HashSet::new();
        let mut current: Option<(&str, u64)> = None;
        for segment in &self.segments {
            if !crate::pages::is_pages_file(&segment.file) {
                return Err(corrupt(format!("segment file \"{}\" is no pages file", segment.file)));
            }
            let expected = match current {
                Some((file, end)) if file == segment.file => end,
                _ if seen.insert(segment.file.as_str()) => 0,
                _ => return Err(corrupt(format!("the segments of {} are not in order", segment.file))),
            };
            if segment.offset != expected {
                let why = format!("a segment of {} begins at {} and not at {expected}", segment.file, segment.offset);
                return Err(corrupt(why));
            }
            current = Some((&segment.file, expected.saturating_add(segment.length)));
        }
        Ok(())
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        let one = [
            &self.created,
            &self.source.container,
            &self.source.image,
            &self.source.image_digest,
            &self.host.arch,
            &self.host.kernel,
            &self.host.cpu_model,
            &self.criu.version,
        ];
        let gpus = self.gpus.iter().flat_map(|gpu| [&gpu.uuid, &gpu.model, &gpu.pci_bus_id]);
        one.into_iter()
            .chain(self.source.node.iter())
            .chain(self.driver.iter().map(|driver| &driver.version))
            .chain(gpus)
            .chain(&self.host.cpu_flags)
            .chain(&self.mounts)
            .chain(self.processes.iter().map(|process| &process.command))
            .map(String::as_str)
    }
}

const WHAT: &str = "read the checkpoint manifest";

fn corrupt(why: impl std::fmt::Display) -> Fault {
    Fault::new(Code::ImageCorrupt, WHAT, why)
        .advise("pull the image again; if it stays so, it is damaged or a newer Baton wrote it")
}

#[cfg(test)]
pub(crate) mod tests;
