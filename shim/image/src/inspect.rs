//! What a person wants to know of a checkpoint image, as `baton inspect` prints it.

use std::fmt;

use crate::manifest::{Gpu, Manifest};
use crate::resolve::Checkpoint;

/// A checkpoint image, for reading. Its `Display` is what `baton inspect` prints.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The reference.
    pub reference: String,
    /// What it points to.
    pub digest: String,
    /// Stored bytes of the whole image.
    pub stored: u64,
    /// Stored bytes of state and pages.
    pub stored_checkpoint: u64,
    /// Bytes of the pages, unpacked.
    pub pages: u64,
    /// Bytes of the state, unpacked.
    pub state: u64,
    /// All the rest.
    pub manifest: Manifest,
}

impl From<&Checkpoint> for Inspection {
    fn from(checkpoint: &Checkpoint) -> Inspection {
        let pages_stored = checkpoint.pages.iter().fold(0_u64, |sum, blob| sum.saturating_add(blob.size));
        Inspection {
            reference: checkpoint.reference.clone(),
            digest: checkpoint.digest.to_string(),
            stored: checkpoint.stored,
            stored_checkpoint: pages_stored.saturating_add(checkpoint.state.size),
            pages: checkpoint.manifest.pages_bytes(),
            state: checkpoint.manifest.state.as_ref().map_or(0, |state| state.bytes),
            manifest: checkpoint.manifest.clone(),
        }
    }
}

/// Most processes that are listed one by one.
const PROCESSES_SHOWN: usize = 20;

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = &self.manifest;
        line(f, "checkpoint", &self.reference)?;
        line(f, "digest", &self.digest)?;
        line(f, "created", &m.created)?;
        let node = m.source.node.as_ref().map_or(String::new(), |node| format!(" on node {node}"));
        line(f, "container", &format!("{}{node}", m.source.container))?;
        line(f, "base image", &format!("{} ({})", m.source.image, m.source.image_digest))?;
        line(f, "size", &self.sizes())?;
        self.gpus(f)?;
        self.processes(f)?;
        writeln!(f)?;
        writeln!(f, "A node needs, to restore it:")?;
        for need in self.needs() {
            writeln!(f, "  - {}", printable(&need))?;
        }
        Ok(())
    }
}

impl Inspection {
    fn sizes(&self) -> String {
        format!(
            "{} in all; memory and state {}, unpacked {}",
            bytes(self.stored),
            bytes(self.stored_checkpoint),
            bytes(self.pages.saturating_add(self.state))
        )
    }

    fn gpus(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.manifest.gpus.is_empty() {
            return line(f, "GPUs", "none");
        }
        for (index, gpu) in self.manifest.gpus.iter().enumerate() {
            let Gpu { uuid, model, pci_bus_id, memory_used, memory_total, .. } = gpu;
            let used = format!("{} of {} in use", bytes(*memory_used), bytes(*memory_total));
            line(f, &format!("GPU {index}"), &format!("{model}, {uuid}, {pci_bus_id}, {used}"))?;
        }
        Ok(())
    }

    fn processes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes = &self.manifest.processes;
        for process in processes.iter().take(PROCESSES_SHOWN) {
            let gpu = process.gpu.as_ref().map_or(String::new(), |gpu| format!(", {} on the GPU", bytes(gpu.bytes)));
            line(f, "process", &format!("{} {}{gpu}", process.pid, process.command))?;
        }
        if processes.len() > PROCESSES_SHOWN {
            line(f, "", &format!("… and {} more", processes.len() - PROCESSES_SHOWN))?;
        }
        Ok(())
    }

    /// What a node must have, in the order in which the gate asks for it.
    fn needs(&self) -> Vec<String> {
        let m = &self.manifest;
        let mut needs = vec![format!("architecture {}", m.host.arch)];
        if let Some(driver) = &m.driver {
            let (major, minor) = (driver.cuda_version / 1000, driver.cuda_version % 1000 / 10);
            needs.push(format!("NVIDIA driver {} (CUDA {major}.{minor})", driver.version));
        }
        for (index, gpu) in m.gpus.iter().enumerate() {
            // Equal cards are told once, with their count.
            let same = |other: &&Gpu| other.model == gpu.model && other.compute_capability == gpu.compute_capability;
            if m.gpus[..index].iter().any(|other| same(&other)) {
                continue;
            }
            let alike: Vec<_> = m.gpus.iter().filter(same).collect();
            let most = alike.iter().map(|gpu| gpu.memory_used).max().unwrap_or(0);
            let [major, minor] = gpu.compute_capability;
            needs.push(format!(
                "{} × {} (whole, compute capability {major}.{minor}) with {} of memory free",
                alike.len(),
                gpu.model,
                bytes(most)
            ));
        }
        needs.push(format!("the {} CPU features of {}", m.host.cpu_flags.len(), m.host.cpu_model));
        needs.push(format!("CRIU {} or newer", m.criu.version));
        needs.push(format!("{} mount points in the container's spec", m.mounts.len()));
        needs
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, value: &str) -> fmt::Result {
    writeln!(f, "{name:<12} {}", printable(value))
}

/// The image's texts come from outside: what a terminal would obey is replaced.
fn printable(text: &str) -> String {
    text.chars().map(|c| if baton_fault::is_printed(c) { c } else { '\u{fffd}' }).collect()
}

/// Bytes as people read them.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut scaled = count as f64;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{scaled:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::oci::Descriptor;

    fn sample() -> Checkpoint {
        let blob = |size| Descriptor::new("x", Digest::of(b"x"), size).expect("a descriptor");
        Checkpoint {
            reference: "r/demo/job:1".into(),
            digest: Digest::of(b"root"),
            manifest: crate::manifest::tests::sample(),
            state: blob(100),
            pages: vec![blob(1 << 20)],
            stored: 3 << 20,
        }
    }

    #[test]
    fn a_person_reads_what_was_saved_and_what_it_needs() {
        let text = Inspection::from(&sample()).to_string();
        for part in [
            "r/demo/job:1",
            "2026-11-30T14:00:00Z",
            "job on node a",
            "localhost/baton/counter:1",
            "3.0 MiB in all",
            "NVIDIA H100 80GB HBM3",
            "1.0 GiB of 80.0 GiB in use",
            "1 counter, 1.0 GiB on the GPU",
            "NVIDIA driver 580.95.05 (CUDA 13.0)",
            "compute capability 9.0",
            "CRIU 4.2 or newer",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
    }

    #[test]
    fn equal_cards_are_told_once() {
        let mut checkpoint = sample();
        let gpu = checkpoint.manifest.gpus[0].clone();
        checkpoint.manifest.gpus.push(gpu);
        let text = Inspection::from(&checkpoint).to_string();
        assert_eq!(text.matches("2 × NVIDIA H100").count(), 1, "{text}");
        assert!(!text.contains("1 × "), "{text}");
    }

    #[test]
    fn a_hostile_text_cannot_steer_the_terminal() {
        let mut checkpoint = sample();
        checkpoint.manifest.processes[0].command = "a\u{1b}[2J\nforged".into();
        let text = Inspection::from(&checkpoint).to_string();
        assert!(!text.contains('\u{1b}') && !text.contains("\nforged"), "{text}");
    }
}
