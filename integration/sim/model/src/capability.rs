//! The device numbers that guard MIG: who may open a node may use what it stands for.
//!
//! The driver hands the minor numbers out by walking fixed tables (open-gpu-kernel-modules, `nv-caps.c`): 1 and 2 for
//! configuring and monitoring, then for each of 32 cards 15 GPU instances, each followed by its 8 compute instances.

use baton_sim_wire::InstanceId;

/// Major number of `/dev/nvidia-caps/nvidia-capN` here; a real one differs from boot to boot.
pub const CAPABILITY_MAJOR: u32 = 236;

const CARDS: u32 = 32;
const GPU_INSTANCES: u32 = 15;
const COMPUTE_INSTANCES: u32 = 8;

/// What a capability node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Making and destroying instances.
    Config,
    /// Seeing those of others.
    Monitor,
    /// A GPU instance of the card with that minor number.
    GpuInstance(u32, u32),
    /// A compute instance of the card with that minor number.
    ComputeInstance(u32, InstanceId),
}

impl Capability {
    /// Minor number of its node.
    pub fn minor(self) -> u32 {
        let gpu_instance = |card: u32, gpu: u32| 3 + (1 + COMPUTE_INSTANCES) * (GPU_INSTANCES * card + gpu);
        match self {
            Capability::Config => 1,
            Capability::Monitor => 2,
            Capability::GpuInstance(card, gpu) => gpu_instance(card, gpu),
            Capability::ComputeInstance(card, instance) => gpu_instance(card, instance.gpu) + 1 + instance.compute,
        }
    }

    /// Its name in `/proc/driver/nvidia-caps/mig-minors`.
    pub fn name(self) -> String {
        match self {
            Capability::Config => "config".to_owned(),
            Capability::Monitor => "monitor".to_owned(),
            Capability::GpuInstance(card, gpu) => format!("gpu{card}/gi{gpu}/access"),
            Capability::ComputeInstance(card, InstanceId { gpu, compute }) => {
                format!("gpu{card}/gi{gpu}/ci{compute}/access")
            }
        }
    }

    /// Its file below `/proc/driver/nvidia/capabilities`.
    pub fn file(self) -> String {
        match self {
            Capability::Config | Capability::Monitor => format!("mig/{}", self.name()),
            Capability::GpuInstance(card, gpu) => format!("gpu{card}/mig/gi{gpu}/access"),
            Capability::ComputeInstance(card, InstanceId { gpu, compute }) => {
                format!("gpu{card}/mig/gi{gpu}/ci{compute}/access")
            }
        }
    }

    /// What that file says. Modes are decimal: 256 is 0400, 292 is 0444.
    pub fn text(self) -> String {
        let mode = if self == Capability::Config { 256 } else { 292 };
        format!("DeviceFileMinor: {}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n", self.minor())
    }
}

/// `/proc/driver/nvidia-caps/mig-minors`: the whole table, whatever instances there are.
pub fn capability_table() -> String {
    let mut all = vec![Capability::Config, Capability::Monitor];
    for card in 0..CARDS {
        for gpu in 0..GPU_INSTANCES {
            all.push(Capability::GpuInstance(card, gpu));
            let compute = 0..COMPUTE_INSTANCES;
            all.extend(compute.map(|compute| Capability::ComputeInstance(card, InstanceId { gpu, compute })));
        }
    }
    all.into_iter().map(|capability| format!("{} {}\n", capability.name(), capability.minor())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values seen in public listings of real machines (`devices.md` §1.2).
    #[test]
    fn minors_are_those_of_the_kernel_driver() {
        let gpu = |card, gpu| Capability::GpuInstance(card, gpu).minor();
        let compute = |card, gpu, compute| Capability::ComputeInstance(card, InstanceId { gpu, compute }).minor();
        assert_eq!((gpu(0, 0), compute(0, 0, 0)), (3, 4));
        assert_eq!((gpu(0, 2), gpu(0, 7), gpu(0, 13)), (21, 66, 120));
        assert_eq!((gpu(1, 2), compute(1, 2, 0)), (156, 157));
        assert_eq!((compute(3, 3, 3), compute(6, 11, 5), compute(31, 14, 7)), (439, 918, 4322));
    }

    #[test]
    fn the_table_lists_every_instance_there_could_be() {
        let table = capability_table();
        assert_eq!(table.lines().count(), 2 + 32 * 15 * 9);
        assert!(table.starts_with("config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\n"));
        assert!(table.ends_with("gpu31/gi14/ci7/access 4322\n"));
    }
}
