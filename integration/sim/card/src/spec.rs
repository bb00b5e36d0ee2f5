//! Which cards a machine has, from a short text and a seed.

use std::path::Path;

use baton_sim_model::{MODELS, Model};
use baton_sim_wire::{Card, MOST_CARDS};
use serde::{Deserialize, Serialize};

use crate::{plausible, whole_file};

/// The longest description that is read, in bytes: sixteen cards are far less.
const LONGEST: u64 = 1 << 20;

/// The hardware of one machine, as it lies in the driver root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Driver version.
    pub driver: String,
    /// CUDA version, as `cuDriverGetVersion` gives it.
    pub cuda: i32,
    /// The cards, by minor number.
    pub cards: Vec<Card>,
    /// Memory that tenants of somebody else's hold, in bytes, by minor number.
    #[serde(default)]
    pub tenants: Vec<u64>,
}

impl Hardware {
    /// Reads a text such as `h100x2,a100-40+20g`. The same seed gives the same UUIDs and PCI addresses, another seed others.
    pub fn from_spec(spec: &str, seed: &str, driver: &str) -> Result<Hardware, String> {
        let cuda = cuda_of(driver)?;
        let (mut cards, mut tenants) = (Vec::new(), Vec::new());
        for word in spec.split(',').filter(|word| *word != "none") {
            let (cards_of_one_kind, tenant) = word_and_tenant(word)?;
            let (model, count) = model_and_count(cards_of_one_kind)?;
            if !plausible::has_room(model.mebibytes << 20, tenant) {
                return Err(format!("{word:?} has no room for a tenant of {tenant} bytes"));
            }
            for _ in 0..count {
                if cards.len() == MOST_CARDS {
                    return Err(format!("{spec:?} asks for more than {MOST_CARDS} cards"));
                }
                cards.push(card(model, seed, cards.len() as u32));
                tenants.push(tenant);
            }
        }
        Ok(Hardware { driver: driver.to_owned(), cuda, cards, tenants })
    }

    /// Reads what `install` has written.
    pub fn read(path: &Path) -> Result<Hardware, String> {
        let text = whole_file::read(path, LONGEST)
            .map_err(|e| format!("cannot read {}: {e}; install the driver root first", path.display()))?;
        let damaged = |why: String| format!("{} is damaged: {why}; install the driver root again", path.display());
        let hardware: Hardware = serde_json::from_slice(&text).map_err(|e| damaged(e.to_string()))?;
        plausible::check(&hardware).map_err(damaged)?;
        Ok(hardware)
    }
}

/// `a100-40+20g` → `a100-40` and 20 GiB.
fn word_and_tenant(word: &str) -> Result<(&str, u64), String> {
    let Some((card, size)) = word.split_once('+') else { return Ok((word, 0)) };
    let gibibytes: Option<u64> = size.strip_suffix('g').and_then(|number| number.parse().ok());
    let tenant = gibibytes.filter(|size| *size > 0).and_then(|size| size.checked_mul(1 << 30));
    tenant.map(|tenant| (card, tenant)).ok_or_else(|| format!("{word:?}: what follows \"+\" is no size such as 20g"))
}

fn model_and_count(word: &str) -> Result<(&'static Model, usize), String> {
    let known: Vec<&str> = MODELS.iter().map(|model| model.word).collect();
    let unknown = || format!("unknown cards {word:?}: none, or {}, each with an optional xCOUNT", known.join(", "));
    MODELS
        .iter()
        .find_map(|model| {
            let rest = word.strip_prefix(model.word)?;
            let count = if rest.is_empty() { 1 } else { rest.strip_prefix('x')?.parse().ok()? };
            (1..=MOST_CARDS).contains(&count).then_some((model, count))
        })
        .ok_or_else(unknown)
}

/// What `cuDriverGetVersion` gives with that driver.
pub fn cuda_of(driver: &str) -> Result<i32, String> {
    let plain = driver.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    if !plain || !driver.contains('.') {
        return Err(format!("driver version {driver:?} is not digits and dots"));
    }
    let branch: u32 = driver.split('.').next().and_then(|first| first.parse().ok()).unwrap_or(0);
    baton_sim_model::cuda_version(branch).ok_or_else(|| format!("driver {driver} is older than any that is simulated"))
}

/// The card of that model with that minor number.
pub fn card(model: &Model, seed: &str, index: u32) -> Card {
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
        guest: model.guest,
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
    fn a_branch_of_the_driver_speaks_one_cuda() {
        for (driver, cuda) in [("550.54.14", 12040), ("570.86.10", 12080), ("580.95.05", 13000), ("615.1", 13030)] {
            assert_eq!(Hardware::from_spec("h100", "a", driver).expect("valid").cuda, cuda);
        }
    }

    #[test]
    fn a_tenant_holds_what_it_is_said_to() {
        let machine = Hardware::from_spec("h100x2+20g,a30", "a", "580.95.05").expect("valid");
        assert_eq!(machine.tenants, [20 << 30, 20 << 30, 0]);
    }

    #[test]
    fn nonsense_is_refused() {
        for spec in [
            "",
            "v100",
            "h100x0",
            "h100x17",
            "h100x9,h100x9",
            "h100y2",
            "h100x-1",
            "h100+",
            "h100+20",
            "h100+0g",
            "h100+80g",
            "none+1g",
        ] {
            assert!(Hardware::from_spec(spec, "a", "580.95.05").is_err(), "{spec:?}");
        }
        for driver in ["", "580", "../x", "580.95/05", "580.", "580..1", "549.1"] {
            assert!(Hardware::from_spec("h100", "a", driver).is_err(), "{driver:?}");
        }
    }
}
