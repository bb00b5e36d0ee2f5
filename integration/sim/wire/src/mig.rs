//! A card's settings and its MIG instances, as an administrator sees and changes them.

use serde::{Deserialize, Serialize};

/// `nvmlComputeMode_t`: who may have contexts on a card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComputeMode {
    /// 0: anybody.
    #[default]
    Default,
    /// 2: nobody.
    Prohibited,
    /// 3: one process, or one MPS server for all its clients.
    ExclusiveProcess,
}

impl ComputeMode {
    /// As NVML numbers it.
    pub fn number(self) -> u32 {
        match self {
            ComputeMode::Default => 0,
            ComputeMode::Prohibited => 2,
            ComputeMode::ExclusiveProcess => 3,
        }
    }

    /// From NVML's number; 1 (exclusive thread) is gone from NVML.
    pub fn of_number(number: u32) -> Option<ComputeMode> {
        [ComputeMode::Default, ComputeMode::Prohibited, ComputeMode::ExclusiveProcess]
            .into_iter()
            .find(|mode| mode.number() == number)
    }
}

/// How long a process works on a card before another has its turn, as `nvidia-smi compute-policy` has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timeslice {
    /// 0: what the driver thinks best.
    #[default]
    Default,
    /// 1
    Short,
    /// 2
    Medium,
    /// 3
    Long,
}

impl Timeslice {
    /// As nvidia-smi numbers it.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// From nvidia-smi's number.
    pub fn of_number(number: u32) -> Option<Timeslice> {
        [Timeslice::Default, Timeslice::Short, Timeslice::Medium, Timeslice::Long]
            .into_iter()
            .find(|timeslice| timeslice.number() == number)
    }
}

/// What is set on a card. It outlives the process that plays the hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// MIG mode now.
    pub mig: bool,
    /// MIG mode after the next reset.
    pub pending_mig: bool,
    /// Who may have contexts.
    pub compute_mode: ComputeMode,
    /// Whether the driver stays loaded without a client.
    pub persistence: bool,
    /// How long processes take turns.
    #[serde(default)]
    pub timeslice: Timeslice,
}

impl Default for Settings {
    /// As `nvidia-persistenced` leaves a card.
    fn default() -> Settings {
        Settings {
            mig: false,
            pending_mig: false,
            compute_mode: ComputeMode::Default,
            persistence: true,
            timeslice: Timeslice::Default,
        }
    }
}

/// Slices: of memory for a GPU instance, of compute for a compute instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// The first slice.
    pub start: u32,
    /// How many.
    pub size: u32,
}

impl Placement {
    /// Whether both have a slice in common.
    pub fn overlaps(self, other: Placement) -> bool {
        self.start < other.start + other.size && other.start < self.start + self.size
    }
}

/// Which MIG device of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InstanceId {
    /// Number of the GPU instance.
    pub gpu: u32,
    /// Number of the compute instance in it.
    pub compute: u32,
}

/// A part of a card's memory with a share of its compute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInstance {
    /// Its number, which says where it lies.
    pub id: u32,
    /// NVML's profile index (`NVML_GPU_INSTANCE_PROFILE_…`).
    pub profile: u32,
    /// Its slices of memory.
    pub placement: Placement,
    /// Its memory, in bytes.
    pub memory: u64,
    /// Bytes that contexts and allocations hold.
    pub used: u64,
    /// Its compute instances, by number.
    pub compute: Vec<ComputeInstance>,
}

/// A share of a GPU instance's compute: a MIG device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeInstance {
    /// Its number in its GPU instance.
    pub id: u32,
    /// NVML's profile index (`NVML_COMPUTE_INSTANCE_PROFILE_…`).
    pub profile: u32,
    /// Its slices of compute, counted from its GPU instance's first.
    pub placement: Placement,
    /// `MIG-` and a UUID.
    pub uuid: String,
}

/// What an administrator may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// MIG mode. At once on an idle card of a kind that needs no reset, else pending.
    Mig(bool),
    /// Who may have contexts.
    ComputeMode(ComputeMode),
    /// Whether the driver stays loaded.
    Persistence(bool),
    /// How long processes take turns.
    Timeslice(Timeslice),
    /// A reset: what is pending becomes what is, and the instances are gone. Refused while anything uses the card.
    Reset,
    /// Make a GPU instance.
    CreateGpuInstance {
        /// NVML's profile index.
        profile: u32,
        /// First slice of memory; the driver chooses without.
        start: Option<u32>,
    },
    /// Destroy one that has no compute instance.
    DestroyGpuInstance {
        /// Its number.
        gpu: u32,
    },
    /// Make a compute instance.
    CreateComputeInstance {
        /// Number of the GPU instance.
        gpu: u32,
        /// NVML's profile index.
        profile: u32,
        /// First slice of compute; the driver chooses without.
        start: Option<u32>,
    },
    /// Destroy one that nobody uses.
    DestroyComputeInstance {
        /// Which.
        instance: InstanceId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_overlap_where_they_share_a_slice() {
        let at = |start, size| Placement { start, size };
        assert!(at(0, 4).overlaps(at(3, 1)));
        assert!(!at(0, 4).overlaps(at(4, 4)));
        assert!(at(2, 2).overlaps(at(0, 8)));
    }

    #[test]
    fn compute_modes_have_the_numbers_of_nvml() {
        for (number, mode) in [(0, Some(ComputeMode::Default)), (1, None), (3, Some(ComputeMode::ExclusiveProcess))] {
            assert_eq!(ComputeMode::of_number(number), mode);
        }
    }

    #[test]
    fn timeslices_have_the_numbers_of_nvidia_smi() {
        let known = [(0, Timeslice::Default), (1, Timeslice::Short), (2, Timeslice::Medium), (3, Timeslice::Long)];
        for (number, timeslice) in known {
            assert_eq!((Timeslice::of_number(number), timeslice.number()), (Some(timeslice), number));
        }
        assert_eq!(Timeslice::of_number(4), None);
    }
}
