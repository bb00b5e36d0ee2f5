//! Handles. They are numbers that say what they stand for, not addresses: one that is not ours is told from ours.
//!
//! ```text
//! bits 31–16: what it is   15–12: place of the card among those that were found   11–6: GPU instance   5–0: compute instance
//! ```

use baton_sim_wire::InstanceId;

use crate::codes::{Code, Outcome};

const CARD: usize = 0x00d0;
const MIG_DEVICE: usize = 0x00d1;
const GPU_INSTANCE: usize = 0x00d2;
const COMPUTE_INSTANCE: usize = 0x00d3;

/// An `nvmlDevice_t`.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle(usize);

/// An `nvmlGpuInstance_t`.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuInstanceHandle(usize);

/// An `nvmlComputeInstance_t`.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComputeInstanceHandle(usize);

/// What an `nvmlDevice_t` stands for: a card, by its place among those that were found, or a MIG device of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A whole card.
    Card(usize),
    /// One of its MIG devices.
    Mig(usize, InstanceId),
}

impl Target {
    /// The card's place.
    pub fn card(self) -> usize {
        match self {
            Target::Card(card) | Target::Mig(card, _) => card,
        }
    }
}

fn packed(kind: usize, card: usize, gpu: u32, compute: u32) -> usize {
    kind << 16 | (card & 0xf) << 12 | (gpu as usize & 0x3f) << 6 | (compute as usize & 0x3f)
}

fn unpacked(handle: usize, kind: usize) -> Option<(usize, InstanceId)> {
    let part = |shift: u32| (handle >> shift & 0x3f) as u32;
    (handle >> 16 == kind).then(|| (handle >> 12 & 0xf, InstanceId { gpu: part(6), compute: part(0) }))
}

impl Handle {
    /// The handle of a card or MIG device.
    pub fn of(target: Target) -> Handle {
        Handle(match target {
            Target::Card(card) => packed(CARD, card, 0, 0),
            Target::Mig(card, InstanceId { gpu, compute }) => packed(MIG_DEVICE, card, gpu, compute),
        })
    }

    /// What it stands for, there or not.
    pub fn target(self) -> Outcome<Target> {
        let card = unpacked(self.0, CARD).filter(|(_, rest)| *rest == InstanceId { gpu: 0, compute: 0 });
        let card = card.map(|(card, _)| Target::Card(card));
        let mig = || unpacked(self.0, MIG_DEVICE).map(|(card, instance)| Target::Mig(card, instance));
        card.or_else(mig).ok_or(Code::INVALID_ARGUMENT)
    }
}

impl GpuInstanceHandle {
    /// The handle of GPU instance `gpu` of the card at that place.
    pub fn of(card: usize, gpu: u32) -> GpuInstanceHandle {
        GpuInstanceHandle(packed(GPU_INSTANCE, card, gpu, 0))
    }

    /// The card's place and the instance's number, there or not.
    pub fn parts(self) -> Outcome<(usize, u32)> {
        let (card, instance) = unpacked(self.0, GPU_INSTANCE).ok_or(Code::INVALID_ARGUMENT)?;
        Ok((card, instance.gpu))
    }
}

impl ComputeInstanceHandle {
    /// The handle of a compute instance of the card at that place.
    pub fn of(card: usize, instance: InstanceId) -> ComputeInstanceHandle {
        ComputeInstanceHandle(packed(COMPUTE_INSTANCE, card, instance.gpu, instance.compute))
    }

    /// The card's place and the instance, there or not.
    pub fn parts(self) -> Outcome<(usize, InstanceId)> {
        unpacked(self.0, COMPUTE_INSTANCE).ok_or(Code::INVALID_ARGUMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_says_what_it_stands_for() {
        let instance = InstanceId { gpu: 13, compute: 6 };
        for target in [Target::Card(0), Target::Card(15), Target::Mig(3, instance)] {
            assert_eq!(Handle::of(target).target(), Ok(target));
        }
        assert_eq!(GpuInstanceHandle::of(7, 14).parts(), Ok((7, 14)));
        assert_eq!(ComputeInstanceHandle::of(7, instance).parts(), Ok((7, instance)));
    }

    #[test]
    fn what_is_no_handle_is_refused() {
        for wrong in [0, 1, 0x00d0_0001, usize::MAX, GpuInstanceHandle::of(0, 0).0] {
            assert_eq!(Handle(wrong).target(), Err(Code::INVALID_ARGUMENT), "{wrong:#x}");
        }
        assert!(GpuInstanceHandle(Handle::of(Target::Card(0)).0).parts().is_err());
        assert!(ComputeInstanceHandle(0).parts().is_err());
    }
}
