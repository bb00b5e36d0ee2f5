//! MIG devices: those that the process may use, of which CUDA shows it one.

use std::fs;

use baton_sim_model::{CAPABILITY_MAJOR, Capability, ComputeProfile, GpuProfile, Model};
use baton_sim_wire::{CardUse, ComputeInstance, DriverRoot, GpuInstance, InstanceId, device_opens};

use crate::nodes::major_of;

/// One MIG device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigDevice {
    /// Where it lies on its card.
    pub id: InstanceId,
    /// `MIG-` and a UUID.
    pub uuid: String,
    /// `MIG 1g.5gb`, `MIG 1c.3g.20gb`.
    pub profile: String,
    /// Memory of its GPU instance, in bytes.
    pub memory: u64,
    /// Its multiprocessors.
    pub multiprocessors: u32,
}

impl MigDevice {
    fn of(gpu: &GpuInstance, compute: &ComputeInstance, profile: &GpuProfile, kind: ComputeProfile) -> MigDevice {
        let whole = kind.slices == profile.compute_slices;
        let name = if whole { profile.name.to_owned() } else { format!("{}c.{}", kind.slices, profile.name) };
        MigDevice {
            id: InstanceId { gpu: gpu.id, compute: compute.id },
            uuid: compute.uuid.clone(),
            profile: format!("MIG {name}"),
            memory: gpu.memory,
            multiprocessors: profile.multiprocessors * kind.slices / profile.compute_slices,
        }
    }

    /// Whether a word of `CUDA_VISIBLE_DEVICES` names it: `MIG-<uuid>`, or `MIG-<uuid of the card>/<gi>/<ci>` as before
    /// driver 470. The beginning of a UUID is enough.
    pub fn is_named(&self, word: &str, card: &str) -> bool {
        let Some(old) = word.strip_prefix("MIG-").filter(|rest| rest.contains('/')) else {
            return word.len() > 4 && self.uuid.starts_with(word);
        };
        let mut parts = old.split('/');
        let numbers = [self.id.gpu.to_string(), self.id.compute.to_string()];
        parts.next() == Some(card) && parts.eq(numbers.iter().map(String::as_str))
    }
}

/// The MIG devices of a card, by number.
pub fn devices_of(held: &CardUse) -> Vec<MigDevice> {
    let table = Model::of_name(&held.card.model).and_then(|model| model.mig).filter(|_| held.settings.mig);
    let Some(table) = table else { return Vec::new() };
    let of_instance = |gpu: &GpuInstance| {
        let profile = table.by_index(gpu.profile)?;
        let kinds = table.compute_profiles(profile);
        let device = |compute: &ComputeInstance| {
            let kind = kinds.iter().find(|kind| kind.index == compute.profile)?;
            Some(MigDevice::of(gpu, compute, profile, *kind))
        };
        Some(gpu.compute.iter().filter_map(device).collect::<Vec<_>>())
    };
    held.instances.iter().filter_map(of_instance).flatten().collect()
}

/// Whether this process may use a MIG device of the card with that minor number: it must be able to open both nodes that
/// guard it.
pub fn is_open_to_us(root: &DriverRoot, minor: u32, id: InstanceId) -> bool {
    let devices = fs::read_to_string(root.path().join("proc/devices")).unwrap_or_default();
    // In a container /proc/devices is the kernel's, which has no such driver.
    let major = major_of(&devices, "nvidia-caps").unwrap_or(CAPABILITY_MAJOR);
    let guards = [Capability::GpuInstance(minor, id.gpu), Capability::ComputeInstance(minor, id)];
    let folder = root.path().join("dev/nvidia-caps");
    let opens = |minor: u32| device_opens(&folder.join(format!("nvidia-cap{minor}")), (major, minor), false);
    guards.iter().all(|guard| opens(guard.minor()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_a_device_by_uuid_or_by_card_and_numbers() {
        let id = InstanceId { gpu: 7, compute: 0 };
        let uuid = "MIG-c2ecf26c-7a5f-52f8-bd32-fcad62dd4d7b".to_owned();
        let device = MigDevice { id, uuid, profile: String::new(), memory: 0, multiprocessors: 14 };
        for word in ["MIG-c2ecf26c-7a5f-52f8-bd32-fcad62dd4d7b", "MIG-c2ec", "MIG-GPU-1234/7/0"] {
            assert!(device.is_named(word, "GPU-1234"), "{word}");
        }
        for word in ["MIG-", "MIG-c3", "MIG-GPU-1234/7/1", "MIG-GPU-1235/7/0", "MIG-GPU-1234/7", "GPU-1234", "0", ""] {
            assert!(!device.is_named(word, "GPU-1234"), "{word}");
        }
    }
}
