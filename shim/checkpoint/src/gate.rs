//! The gate: whether a checkpoint can be restored on this node, judged from its small manifest alone, before any
//! large blob is read. Each refusal has its own code and names both values.

use baton_fault::{Code, Fault, Result};
use baton_image::manifest::{Host, Manifest};

/// CPU features whose absence does not matter to a restored process: mitigations, names of bugs worked round and
/// what only a kernel or a hypervisor uses.
const IRRELEVANT_FLAGS: &[&str] = &[
    "ibrs",
    "ibpb",
    "stibp",
    "ssbd",
    "ibrs_enhanced",
    "md_clear",
    "flush_l1d",
    "arch_capabilities",
    "spec_ctrl",
    "hypervisor",
    "constant_tsc",
    "nonstop_tsc",
    "tsc_known_freq",
    "tsc_reliable",
    "tsc_adjust",
    "tsc_deadline_timer",
    "rep_good",
    "nopl",
    "cpuid",
    "vmmcall",
    "vmx",
    "svm",
    "ept",
    "vpid",
    "invpcid_single",
    "pti",
    "kaiser",
    "cpuid_fault",
    "aperfmperf",
    "arat",
    "topoext",
    "perfctr_core",
    "amd_ibpb",
    "virt_ssbd",
    "amd_ppin",
    "arch_perfmon",
    "pdpe1gb",
    "x2apic",
    "pcid",
    "invpcid",
    "smep",
    "smap",
    "umip",
];

/// What a node offers to a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The machine.
    pub host: Host,
    /// CRIU's version on this node.
    pub criu: String,
    /// The NVIDIA driver's version; none on a node without.
    pub driver: Option<String>,
    /// Cards that this container may get: their model and compute capability.
    pub cards: Vec<NodeCard>,
}

/// A card that a container may get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCard {
    /// The product's name.
    pub model: String,
    /// Major and minor.
    pub compute_capability: [u32; 2],
    /// Memory of the card, in bytes.
    pub memory_total: u64,
}

/// Lets `manifest` pass, or says the first thing in the way.
///
/// # Errors
/// One of the `RESTORE_…` codes, with both values.
pub fn check(reference: &str, manifest: &Manifest, node: &Node) -> Result<()> {
    let refuse = |code, saved: &str, here: &str, advice: &str| {
        Err(Fault::new(code, format!("restore {reference}"), format!("it was saved on {saved}, this node has {here}"))
            .advise(advice))
    };
    if manifest.host.arch != node.host.arch {
        return refuse(
            Code::RestoreArch,
            &manifest.host.arch,
            &node.host.arch,
            "restore it on a node of the same machine architecture",
        );
    }
    if let Some(driver) = &manifest.driver {
        cards(manifest, node, refuse)?;
        match &node.driver {
            Some(here) if *here == driver.version => {}
            here => {
                return refuse(
                    Code::RestoreDriver,
                    &format!("NVIDIA driver {}", driver.version),
                    &here.as_ref().map_or_else(|| "none".to_string(), |version| format!("driver {version}")),
                    "restore it on a node with the same driver version",
                );
            }
        }
    }
    let missing: Vec<&str> = manifest
        .host
        .cpu_flags
        .iter()
        .map(String::as_str)
        .filter(|flag| !IRRELEVANT_FLAGS.contains(flag) && !node.host.cpu_flags.iter().any(|here| here == flag))
        .collect();
    if !missing.is_empty() {
        return refuse(
            Code::RestoreCpu,
            &format!("\"{}\" with the CPU features {}", manifest.host.cpu_model, missing.join(" ")),
            &format!("\"{}\" without them", node.host.cpu_model),
            "restore it on a node whose CPU has them",
        );
    }
    if version(&node.criu) < version(&manifest.criu.version) {
        return refuse(
            Code::RestoreCriu,
            &format!("CRIU {}", manifest.criu.version),
            &format!("CRIU {}", node.criu),
            "install at least that version of CRIU on this node",
        );
    }
    Ok(())
}

/// Demands that the live container has a mount wherever the saved one had.
///
/// # Errors
/// `RESTORE_MOUNT`, naming the place.
pub fn mounts(reference: &str, manifest: &Manifest, live: &[String]) -> Result<()> {
    let Some(lacking) = manifest.mounts.iter().find(|saved| !live.contains(saved)) else { return Ok(()) };
    Err(Fault::new(
        Code::RestoreMount,
        format!("restore {reference}"),
        format!("it was saved with a mount at {lacking}, this container has none there"),
    )
    .advise(format!("run it with a mount at {lacking}")))
}

fn cards(manifest: &Manifest, node: &Node, refuse: impl Fn(Code, &str, &str, &str) -> Result<()>) -> Result<()> {
    let models = |cards: &[NodeCard]| {
        let mut names: Vec<String> = cards.iter().map(|card| format!("\"{}\"", card.model)).collect();
        names.sort();
        names.dedup();
        if names.is_empty() { "no GPU".to_string() } else { names.join(", ") }
    };
    for gpu in &manifest.gpus {
        let fits = |card: &&NodeCard| card.model == gpu.model && card.compute_capability == gpu.compute_capability;
        let Some(card) = node.cards.iter().find(fits) else {
            return refuse(
                Code::RestoreModel,
                &format!("\"{}\"", gpu.model),
                &models(&node.cards),
                &format!("restore it on a node with a \"{}\"", gpu.model),
            );
        };
        if card.memory_total < gpu.memory_used {
            return refuse(
                Code::RestoreMemory,
                &format!("a card with {} bytes in use", gpu.memory_used),
                &format!("cards of {} bytes", card.memory_total),
                "restore it on a card with more memory",
            );
        }
        let needed = manifest.gpus.iter().filter(|other| other.model == gpu.model).count();
        let here = node.cards.iter().filter(fits).count();
        if here < needed {
            return refuse(
                Code::RestoreCount,
                &format!("{needed} × \"{}\"", gpu.model),
                &format!("{here}"),
                "restore it with as many cards as it was saved with",
            );
        }
    }
    Ok(())
}

/// A dotted version as numbers; what is no number counts as 0.
fn version(text: &str) -> Vec<u32> {
    let mut parts: Vec<u32> = text.split('.').map(|part| part.parse().unwrap_or(0)).collect();
    while parts.last() == Some(&0) {
        parts.pop();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_image::manifest::{CgroupVersion, Criu, Driver, Gpu, GpuKind, Source};

    const H100: &str = "NVIDIA H100 80GB HBM3";
    const A100: &str = "NVIDIA A100-SXM4-40GB";

    fn host(flags: &[&str]) -> Host {
        Host {
            arch: "x86_64".into(),
            kernel: "6.18.0".into(),
            cpu_model: "A CPU".into(),
            cpu_flags: flags.iter().map(ToString::to_string).collect(),
            cgroup: CgroupVersion::V1,
        }
    }

    fn card(model: &str, capability: [u32; 2], gib: u64) -> NodeCard {
        NodeCard { model: model.into(), compute_capability: capability, memory_total: gib << 30 }
    }

    fn node() -> Node {
        Node {
            host: host(&["sse", "avx", "smep"]),
            criu: "4.2".into(),
            driver: Some("580.95.05".into()),
            cards: vec![card(H100, [9, 0], 80)],
        }
    }

    fn manifest() -> Manifest {
        Manifest {
            format: 1,
            created: "2026-01-01T00:00:00Z".into(),
            source: Source { container: "job".into(), image: "i".into(), image_digest: "d".into(), node: None },
            host: host(&["sse", "avx", "pcid"]),
            criu: Criu { version: "4.2.0".into() },
            driver: Some(Driver { version: "580.95.05".into(), cuda_version: 13000 }),
            gpus: vec![Gpu {
                uuid: "GPU-11111111-2222-3333-4444-555555555555".into(),
                model: H100.into(),
                compute_capability: [9, 0],
                pci_bus_id: "00000000:01:00.0".into(),
                kind: GpuKind::Whole,
                memory_total: 80 << 30,
                memory_used: 1 << 30,
            }],
            processes: vec![],
            mounts: vec!["/proc".into()],
            segments: vec![],
            state: None,
        }
    }

    fn refusal(manifest: &Manifest, node: &Node) -> Fault {
        check("r/job:1", manifest, node).expect_err("refused")
    }

    #[test]
    fn an_equal_node_passes() {
        check("r/job:1", &manifest(), &node()).expect("passes");
    }

    #[test]
    fn another_model_is_refused_with_both_values() {
        let node = Node { cards: vec![card(A100, [8, 0], 40)], ..node() };
        let fault = refusal(&manifest(), &node);
        assert_eq!(fault.code, Code::RestoreModel);
        assert!(fault.to_string().contains(H100) && fault.to_string().contains(A100), "{fault}");
    }

    #[test]
    fn each_difference_has_its_code() {
        let arch = Node { host: Host { arch: "aarch64".into(), ..host(&[]) }, ..node() };
        assert_eq!(refusal(&manifest(), &arch).code, Code::RestoreArch);
        let driver = Node { driver: Some("570.1".into()), ..node() };
        assert_eq!(refusal(&manifest(), &driver).code, Code::RestoreDriver);
        let cpu = Node { host: host(&["sse"]), ..node() };
        let fault = refusal(&manifest(), &cpu);
        assert_eq!(fault.code, Code::RestoreCpu);
        assert!(fault.to_string().contains("avx") && !fault.to_string().contains("pcid"), "{fault}");
        let criu = Node { criu: "4.1.9".into(), ..node() };
        assert_eq!(refusal(&manifest(), &criu).code, Code::RestoreCriu);
        let live = ["/proc".to_string(), "/dev".to_string()];
        super::mounts("r/job:1", &manifest(), &live).expect("all there");
        let mut mounts = manifest();
        mounts.mounts.push("/data".into());
        let fault = super::mounts("r/job:1", &mounts, &live).expect_err("one is missing");
        assert_eq!(fault.code, Code::RestoreMount);
        assert!(fault.to_string().contains("/data"));
        let mut two = manifest();
        two.gpus.push(two.gpus[0].clone());
        assert_eq!(refusal(&two, &node()).code, Code::RestoreCount);
        let mut full = manifest();
        full.gpus[0].memory_used = 81 << 30;
        assert_eq!(refusal(&full, &node()).code, Code::RestoreMemory);
    }

    #[test]
    fn a_node_without_gpu_is_refused_for_its_cards() {
        let node = Node { driver: None, cards: vec![], ..node() };
        let fault = refusal(&manifest(), &node);
        assert_eq!(fault.code, Code::RestoreModel);
        assert!(fault.to_string().contains("no GPU"), "{fault}");
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(version("4.10") > version("4.9.9"));
        assert_eq!(version("4.2"), version("4.2.0"));
    }
}
