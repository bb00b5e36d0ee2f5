//! MIG profiles: what a card can be cut into.

/// The video and copy engines that come with an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Engines {
    /// Copy engines.
    pub copy: u32,
    /// Decoders.
    pub decoder: u32,
    /// Encoders.
    pub encoder: u32,
    /// JPEG decoders.
    pub jpeg: u32,
    /// Optical flow accelerators.
    pub ofa: u32,
}

/// A kind of GPU instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuProfile {
    /// NVML's index, `NVML_GPU_INSTANCE_PROFILE_…` of nvml.h.
    pub index: u32,
    /// The number that `nvidia-smi mig` and `nvmlGpuInstanceProfileInfo_t::id` use.
    pub id: u32,
    /// As NVML names it, without the leading `MIG `: `1g.10gb+me`.
    pub name: &'static str,
    /// Slices of compute.
    pub compute_slices: u32,
    /// Where it may start, in slices of memory.
    pub starts: &'static [u32],
    /// How many slices of memory it takes.
    pub size: u32,
    /// How many there may be at once.
    pub most: u32,
    /// Its memory, in MiB.
    pub mebibytes: u64,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// What else it has.
    pub engines: Engines,
}

impl GpuProfile {
    /// Whether it is one of those with the media engines, of which a card has one set.
    pub fn has_media(&self) -> bool {
        self.name.ends_with("+me")
    }
}

/// A kind of compute instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComputeProfile {
    /// NVML's index, `NVML_COMPUTE_INSTANCE_PROFILE_…` of nvml.h; also the number that `nvidia-smi mig` uses.
    pub index: u32,
    /// Slices of compute.
    pub slices: u32,
}

/// The kinds of compute instances, by size.
const COMPUTE: [ComputeProfile; 5] = [
    ComputeProfile { index: 0, slices: 1 },
    ComputeProfile { index: 1, slices: 2 },
    ComputeProfile { index: 2, slices: 3 },
    ComputeProfile { index: 3, slices: 4 },
    ComputeProfile { index: 4, slices: 7 },
];

/// What one model can be cut into.
#[derive(Debug, PartialEq, Eq)]
pub struct MigTable {
    /// Slices of memory of the whole card.
    pub memory_slices: u32,
    /// The kinds of GPU instances, as `nvidia-smi mig -lgip` orders them.
    pub profiles: &'static [GpuProfile],
}

impl MigTable {
    /// The profile with NVML's index.
    pub fn by_index(&self, index: u32) -> Option<&'static GpuProfile> {
        self.profiles.iter().find(|profile| profile.index == index)
    }

    /// The profile with the number of `nvidia-smi`.
    pub fn by_id(&self, id: u32) -> Option<&'static GpuProfile> {
        self.profiles.iter().find(|profile| profile.id == id)
    }

    /// The most MIG devices on one card.
    pub fn most_devices(&self) -> u32 {
        self.profiles.iter().map(|profile| profile.most).max().unwrap_or(0)
    }

    /// The compute instances that fit into a GPU instance of that profile: those up to its size, and the one that fills it.
    pub fn compute_profiles(&self, of: &GpuProfile) -> Vec<ComputeProfile> {
        COMPUTE.into_iter().filter(|profile| profile.slices <= of.compute_slices).collect()
    }
}
