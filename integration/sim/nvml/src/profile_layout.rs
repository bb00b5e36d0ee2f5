//! How `nvml.h` lays out what it tells of profiles.

use baton_sim_model::GpuProfile;

/// What all versions of a GPU instance's profile say after their first members.
#[repr(C)]
pub struct GpuCounts {
    pub slices: u32,
    pub instances: u32,
    pub multiprocessors: u32,
    pub copy_engines: u32,
    pub decoders: u32,
    pub encoders: u32,
    pub jpeg_decoders: u32,
    pub ofa: u32,
}

impl GpuCounts {
    /// Those of a profile.
    pub fn of(profile: &GpuProfile) -> GpuCounts {
        GpuCounts {
            slices: profile.compute_slices,
            instances: profile.most,
            multiprocessors: profile.multiprocessors,
            copy_engines: profile.engines.copy,
            decoders: profile.engines.decoder,
            encoders: profile.engines.encoder,
            jpeg_decoders: profile.engines.jpeg,
            ofa: profile.engines.ofa,
        }
    }
}

/// `nvmlGpuInstanceProfileInfo_t`.
#[repr(C)]
pub struct GpuProfileInfo {
    pub id: u32,
    pub p2p: u32,
    pub counts: GpuCounts,
    pub mebibytes: u64,
}

/// `nvmlGpuInstanceProfileInfo_v2_t`.
#[repr(C)]
pub struct GpuProfileInfoV2 {
    pub version: u32,
    pub id: u32,
    pub p2p: u32,
    pub counts: GpuCounts,
    pub mebibytes: u64,
    pub name: [u8; 96],
}

/// `nvmlGpuInstanceProfileInfo_v3_t`.
#[repr(C)]
pub struct GpuProfileInfoV3 {
    pub version: u32,
    pub id: u32,
    pub counts: GpuCounts,
    pub mebibytes: u64,
    pub name: [u8; 96],
    pub capabilities: u32,
}

/// What all versions of a compute instance's profile say: `nvmlComputeInstanceProfileInfo_t`.
#[repr(C)]
pub struct ComputeProfileInfo {
    pub id: u32,
    pub slices: u32,
    pub instances: u32,
    pub multiprocessors: u32,
    pub copy_engines: u32,
    pub decoders: u32,
    pub encoders: u32,
    pub jpeg_decoders: u32,
    pub ofa: u32,
}

/// `nvmlComputeInstanceProfileInfo_v2_t`.
#[repr(C)]
pub struct ComputeProfileInfoV2 {
    pub version: u32,
    pub first: ComputeProfileInfo,
    pub name: [u8; 96],
}

/// `nvmlComputeInstanceProfileInfo_v3_t`.
#[repr(C)]
pub struct ComputeProfileInfoV3 {
    pub second: ComputeProfileInfoV2,
    pub capabilities: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::struct_version;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<GpuProfileInfo>(), 48);
        // nvmlGpuInstanceProfileInfo_v2 and nvmlComputeInstanceProfileInfo_v2 of pynvml.py
        assert_eq!(struct_version::<GpuProfileInfoV2>(2), 0x0200_0098);
        assert_eq!(struct_version::<GpuProfileInfoV3>(3), 0x0300_0098);
        assert_eq!(size_of::<ComputeProfileInfo>(), 36);
        assert_eq!(struct_version::<ComputeProfileInfoV2>(2), 0x0200_0088);
        assert_eq!(struct_version::<ComputeProfileInfoV3>(3), 0x0300_008c);
    }
}
