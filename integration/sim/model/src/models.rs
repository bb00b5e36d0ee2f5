//! The products that can be simulated.
//!
//! Names, sizes, PCI ids and profiles are those that NVML reports for them: MIG user guide (r580) and public listings of
//! `nvidia-smi mig -lgip`, collected in `devices.md` §1.5. Where no listing was found, a size is the share of the card that
//! gives the profile its name; those are the whole-card profiles of H100, H200 and B200 and what the B200 has beyond 2g.

use crate::profile::{Engines, GpuProfile, MigTable};

/// A product.
#[derive(Debug, PartialEq, Eq)]
pub struct Model {
    /// What a specification of cards calls it.
    pub word: &'static str,
    /// Product name as NVML and CUDA report it.
    pub name: &'static str,
    /// Compute capability.
    pub capability: (i32, i32),
    /// `nvmlDeviceArchitecture_t` (nvml.h): Ampere 7, Hopper 9, Blackwell 10.
    pub architecture: u32,
    /// All memory in MiB, as NVML reports it.
    pub mebibytes: u64,
    /// PCI device id and subsystem id as NVML reports them: device in the high half.
    pub pci_ids: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// What it can be cut into; `None`: nothing.
    pub mig: Option<&'static MigTable>,
    /// A vGPU in the guest of a hypervisor.
    pub guest: bool,
}

impl Model {
    /// The model that a specification of cards calls so.
    pub fn of_word(word: &str) -> Option<&'static Model> {
        MODELS.iter().find(|model| model.word == word)
    }

    /// The model with that product name.
    pub fn of_name(name: &str) -> Option<&'static Model> {
        MODELS.iter().find(|model| model.name == name)
    }

    /// Whether a change of MIG mode waits for a reset: it does before Hopper.
    pub fn needs_reset(&self) -> bool {
        self.architecture < 9
    }
}

/// All of them.
pub static MODELS: [Model; 7] = [
    Model {
        word: "a30",
        name: "NVIDIA A30",
        capability: (8, 0),
        architecture: 7,
        mebibytes: 24576,
        pci_ids: (0x20b7_10de, 0x1532_10de),
        multiprocessors: 56,
        mig: Some(&A30),
        guest: false,
    },
    Model {
        word: "a100-40",
        name: "NVIDIA A100-SXM4-40GB",
        capability: (8, 0),
        architecture: 7,
        mebibytes: 40960,
        pci_ids: (0x20b0_10de, 0x134f_10de),
        multiprocessors: 108,
        mig: Some(&A100_40),
        guest: false,
    },
    Model {
        word: "a100-80",
        name: "NVIDIA A100-SXM4-80GB",
        capability: (8, 0),
        architecture: 7,
        mebibytes: 81920,
        pci_ids: (0x20b2_10de, 0x1463_10de),
        multiprocessors: 108,
        mig: Some(&A100_80),
        guest: false,
    },
    Model {
        word: "h100",
        name: "NVIDIA H100 80GB HBM3",
        capability: (9, 0),
        architecture: 9,
        mebibytes: 81559,
        pci_ids: (0x2330_10de, 0x16c1_10de),
        multiprocessors: 132,
        mig: Some(&H100),
        guest: false,
    },
    Model {
        word: "h200",
        name: "NVIDIA H200",
        capability: (9, 0),
        architecture: 9,
        mebibytes: 143_771,
        pci_ids: (0x2335_10de, 0x18be_10de),
        multiprocessors: 132,
        mig: Some(&H200),
        guest: false,
    },
    Model {
        word: "b200",
        name: "NVIDIA B200",
        capability: (10, 0),
        architecture: 10,
        mebibytes: 183_359,
        pci_ids: (0x2901_10de, 0x1999_10de),
        multiprocessors: 148,
        mig: Some(&B200),
        guest: false,
    },
    Model {
        word: "vgpu-a100-10",
        name: "GRID A100D-10C",
        capability: (8, 0),
        architecture: 7,
        mebibytes: 10240,
        pci_ids: (0x20b5_10de, 0x1591_10de),
        multiprocessors: 108,
        mig: None,
        guest: true,
    },
];

/// Sizes in MiB, multiprocessors and engines of one profile.
type Share = (u64, u32, Engines);

const fn engines(copy: u32, decoder: u32, jpeg: u32, ofa: u32) -> Engines {
    Engines { copy, decoder, encoder: 0, jpeg, ofa }
}

/// The profiles of a card with seven slices of compute and eight of memory: 1g, 1g with media, 1g with double memory, 2g,
/// 3g, 4g, 7g. `starts`, sizes and counts are the same on all of them.
const fn seven_slices(names: [&'static str; 7], shares: [Share; 7]) -> [GpuProfile; 7] {
    const EACH: &[u32] = &[0, 1, 2, 3, 4, 5, 6];
    const PAIRS: &[u32] = &[0, 2, 4];
    [
        profile(0, 19, names[0], (1, EACH, 1, 7), shares[0]),
        profile(7, 20, names[1], (1, EACH, 1, 1), shares[1]),
        profile(9, 15, names[2], (1, &[0, 2, 4, 6], 2, 4), shares[2]),
        profile(1, 14, names[3], (2, PAIRS, 2, 3), shares[3]),
        profile(2, 9, names[4], (3, &[0, 4], 4, 2), shares[4]),
        profile(3, 5, names[5], (4, &[0], 4, 1), shares[5]),
        profile(4, 0, names[6], (7, &[0], 8, 1), shares[6]),
    ]
}

/// Slices of compute, starts, slices of memory, how many.
type Shape = (u32, &'static [u32], u32, u32);

const fn profile(index: u32, id: u32, name: &'static str, shape: Shape, share: Share) -> GpuProfile {
    let (compute_slices, starts, size, most) = shape;
    let (mebibytes, multiprocessors, engines) = share;
    GpuProfile { index, id, name, compute_slices, starts, size, most, mebibytes, multiprocessors, engines }
}

static A30: MigTable = MigTable {
    memory_slices: 4,
    profiles: &[
        profile(0, 14, "1g.6gb", (1, &[0, 1, 2, 3], 1, 4), (5952, 14, engines(1, 0, 0, 0))),
        profile(7, 21, "1g.6gb+me", (1, &[0, 1, 2, 3], 1, 1), (5952, 14, engines(1, 1, 1, 1))),
        profile(1, 5, "2g.12gb", (2, &[0, 2], 2, 2), (11968, 28, engines(2, 2, 0, 0))),
        profile(8, 6, "2g.12gb+me", (2, &[0, 2], 2, 1), (11968, 28, engines(2, 2, 1, 1))),
        profile(3, 0, "4g.24gb", (4, &[0], 4, 1), (24064, 56, engines(4, 4, 1, 1))),
    ],
};

static A100_40: MigTable = MigTable {
    memory_slices: 8,
    profiles: &seven_slices(
        ["1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"],
        a100([4864, 9856, 19968, 40192]),
    ),
};

static A100_80: MigTable = MigTable {
    memory_slices: 8,
    profiles: &seven_slices(
        ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"],
        a100([9856, 19968, 40192, 80384]),
    ),
};

/// From the sizes of one, two, four and eight slices of memory.
const fn a100(mebibytes: [u64; 4]) -> [Share; 7] {
    let [one, two, four, eight] = mebibytes;
    [
        (one, 14, engines(1, 0, 0, 0)),
        (one, 14, engines(1, 1, 1, 1)),
        (two, 14, engines(1, 1, 0, 0)),
        (two, 28, engines(2, 1, 0, 0)),
        (four, 42, engines(3, 2, 0, 0)),
        (four, 56, engines(4, 2, 0, 0)),
        (eight, 98, engines(7, 5, 1, 1)),
    ]
}

static H100: MigTable = MigTable {
    memory_slices: 8,
    profiles: &seven_slices(
        ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"],
        hopper([9984, 20096, 40448, 81152], [16, 26, 32, 60, 64, 132]),
    ),
};

static H200: MigTable = MigTable {
    memory_slices: 8,
    profiles: &seven_slices(
        ["1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"],
        hopper([16384, 33024, 71168, 143_104], [16, 26, 32, 60, 64, 132]),
    ),
};

static B200: MigTable = MigTable {
    memory_slices: 8,
    profiles: &seven_slices(
        ["1g.23gb", "1g.23gb+me", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"],
        hopper([22528, 45312, 90624, 182_784], [18, 30, 36, 70, 72, 148]),
    ),
};

/// From the sizes of one, two, four and eight slices of memory, and the multiprocessors of 1g, 1g with double memory, 2g,
/// 3g, 4g and 7g.
const fn hopper(mebibytes: [u64; 4], multiprocessors: [u32; 6]) -> [Share; 7] {
    let [one, two, four, eight] = mebibytes;
    [
        (one, multiprocessors[0], engines(1, 1, 1, 0)),
        (one, multiprocessors[0], engines(1, 1, 1, 1)),
        (two, multiprocessors[1], engines(1, 1, 1, 0)),
        (two, multiprocessors[2], engines(2, 2, 2, 0)),
        (four, multiprocessors[3], engines(3, 3, 3, 0)),
        (four, multiprocessors[4], engines(4, 4, 4, 0)),
        (eight, multiprocessors[5], engines(8, 7, 7, 1)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size in a profile's name, as NVIDIA's go-nvlib computes it from what NVML reports (`mig_profile.go`): the share
    /// of the card in eighths, rounded up, of its memory in whole GiB, rounded up.
    fn gigabytes(profile: &GpuProfile, card: &Model) -> u64 {
        let eighths = (profile.mebibytes * 8).div_ceil(card.mebibytes);
        let whole = card.mebibytes.div_ceil(1024);
        (eighths * whole * 2 + 8) / 16
    }

    #[test]
    fn the_sizes_give_the_names() {
        for model in MODELS.iter() {
            for profile in model.mig.map_or(&[][..], |table| table.profiles) {
                let wanted = format!("{}g.{}gb", profile.compute_slices, gigabytes(profile, model));
                assert_eq!(profile.name.trim_end_matches("+me"), wanted, "{}", model.name);
            }
        }
    }

    #[test]
    fn no_layout_is_larger_than_its_card() {
        for model in MODELS.iter() {
            for profile in model.mig.map_or(&[][..], |table| table.profiles) {
                assert!(
                    profile.mebibytes * u64::from(profile.most) <= model.mebibytes,
                    "{} {}",
                    model.name,
                    profile.name
                );
                assert!(profile.multiprocessors * profile.most <= model.multiprocessors, "{}", profile.name);
            }
        }
    }

    #[test]
    fn words_and_names_are_unique() {
        for model in MODELS.iter() {
            assert_eq!(Model::of_word(model.word), Some(model));
            assert_eq!(Model::of_name(model.name), Some(model));
        }
    }
}
