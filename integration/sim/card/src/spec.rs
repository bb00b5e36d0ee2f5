//! Which cards a machine has, from a short text and a seed.

use std::fs;
use std::path::Path;

use baton_sim_wire::{Card, MOST_CARDS};
use serde::{Deserialize, Serialize};

/// The hardware of one machine, as it lies in the driver root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Driver version.
    pub driver: String,
    /// CUDA version, as `cuDriverGetVersion` gives it.
    pub cuda: i32,
    /// The cards, by minor number.
    pub cards: Vec<Card>,
}

/// A product.
struct Model {
    word: &'static str,
    name: &'static str,
    capability: (i32, i32),
    mebibytes: u64,
    pci_ids: (u32, u32),
}

/// Names, sizes and PCI ids as NVML reports them for these products.
const MODELS: [Model; 2] = [
    Model {
        word: "h100",
        name: "NVIDIA H100 80GB HBM3",
        capability: (9, 0),
        mebibytes: 81559,
        pci_ids: (0x2330_10de, 0x16c1_10de),
    },
    Model {
        word: "a100-40",
        name: "NVIDIA A100-SXM4-40GB",
        capability: (8, 0),
        mebibytes: 40960,
        pci_ids: (0x20b0_10de, 0x134f_10de),
    },
];

impl Hardware {
    /// Reads a text such as `h100x2,a100-40`. The same seed gives the same UUIDs and PCI addresses, another seed others.
    pub fn from_spec(spec: &str, seed: &str, driver: &str) -> Result<Hardware, String> {
        let version_is_plain = !driver.is_empty() && driver.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if !version_is_plain || !driver.contains('.') {
            return Err(format!("driver version {driver:?} is not digits and dots"));
        }
        let mut cards = Vec::new();
        for word in spec.split(',').filter(|word| *word != "none") {
            let (model, count) = model_and_count(word)?;
            for _ in 0..count {
                if cards.len() == MOST_CARDS {
                    return Err(format!("{spec:?} asks for more than {MOST_CARDS} cards"));
                }
                cards.push(card(model, seed, cards.len() as u32));
            }
        }
        Ok(Hardware { driver: driver.to_owned(), cuda: 13000, cards })
    }

    /// Reads what `install` has written.
    pub fn read(path: &Path) -> Result<Hardware, String> {
        let text = fs::read(path)
            .map_err(|e| format!("cannot read {}: {e}; install the driver root first", path.display()))?;
        serde_json::from_slice(&text).map_err(|e| format!("{} is damaged: {e}", path.display()))
    }
}

fn model_and_count(word: &str) -> Result<(&'static Model, usize), String> {
    let unknown = || format!("unknown cards {word:?}: none, h100 or a100-40, each with an optional xCOUNT");
    MODELS
        .iter()
        .find_map(|model| {
            let rest = word.strip_prefix(model.word)?;
            let count = if rest.is_empty() { 1 } else { rest.strip_prefix('x')?.parse().ok()? };
            (1..=MOST_CARDS).contains(&count).then_some((model, count))
        })
        .ok_or_else(unknown)
}

fn card(model: &Model, seed: &str, index: u32) -> Card {
    let mut state = digest(seed) ^ (u64::from(index) << 56);
    let (high, low) = (next(&mut state), next(&mut state));
    let uuid = format!(
        "GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    );
    // Cards of one machine come in ascending order of address, as the driver numbers them.
    let first = 1 + (digest(seed) % 96) as u32;
    Card {
        uuid,
        minor: index,
        model: model.name.to_owned(),
        capability: model.capability,
        memory: model.mebibytes << 20,
        pci: (0, first + index * 9, 0),
        pci_ids: model.pci_ids,
    }
}

/// FNV-1a.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards(spec: &str, seed: &str) -> Vec<Card> {
        Hardware::from_spec(spec, seed, "580.95.05").expect("valid").cards
    }

    #[test]
    fn a_spec_names_models_and_counts() {
        let mixed = cards("h100x2,a100-40", "a");
        let names: Vec<&str> = mixed.iter().map(|card| card.model.as_str()).collect();
        assert_eq!(names, ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB"]);
        assert_eq!(mixed[0].memory, 81559 << 20);
        assert!(cards("none", "a").is_empty());
    }

    #[test]
    fn the_seed_alone_decides_the_identity() {
        assert_eq!(cards("h100x2", "a"), cards("h100x2", "a"));
        assert_ne!(cards("h100", "a")[0].uuid, cards("h100", "b")[0].uuid);
        assert_ne!(cards("h100", "a")[0].pci, cards("h100", "b")[0].pci);
        let two = cards("h100x2", "a");
        assert_ne!(two[0].uuid, two[1].uuid);
        assert_ne!(two[0].pci, two[1].pci);
    }

    #[test]
    fn nonsense_is_refused() {
        for spec in ["", "v100", "h100x0", "h100x17", "h100x9,h100x9", "h100y2", "h100x-1"] {
            assert!(Hardware::from_spec(spec, "a", "580.95.05").is_err(), "{spec:?}");
        }
        for driver in ["", "580", "../x", "580.95/05"] {
            assert!(Hardware::from_spec("h100", "a", driver).is_err(), "{driver:?}");
        }
    }
}
