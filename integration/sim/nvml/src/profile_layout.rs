//! How `nvml.h` lays out what it tells of profiles.

use baton_sim_model::GpuProfile;

use crate::layout::layout;

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

layout!(
    GpuCounts, 32: slices 0, instances 4, multiprocessors 8, copy_engines 12, decoders 16, encoders 20, jpeg_decoders 24,
    ofa 28
);

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

layout!(GpuProfileInfo, 48: id 0, p2p 4, counts 8, mebibytes 40);

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

layout!(GpuProfileInfoV2, 152: version 0, id 4, p2p 8, counts 12, mebibytes 48, name 56);

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

layout!(GpuProfileInfoV3, 152: version 0, id 4, counts 8, mebibytes 40, name 48, capabilities 144);

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

layout!(
    ComputeProfileInfo, 36: id 0, slices 4, instances 8, multiprocessors 12, copy_engines 16, decoders 20, encoders 24,
    jpeg_decoders 28, ofa 32
);

/// `nvmlComputeInstanceProfileInfo_v2_t`.
#[repr(C)]
pub struct ComputeProfileInfoV2 {
    pub version: u32,
    pub first: ComputeProfileInfo,
    pub name: [u8; 96],
}

layout!(ComputeProfileInfoV2, 136: version 0, first 4, name 40);

/// `nvmlComputeInstanceProfileInfo_v3_t`.
#[repr(C)]
pub struct ComputeProfileInfoV3 {
    pub second: ComputeProfileInfoV2,
    pub capabilities: u32,
}

layout!(ComputeProfileInfoV3, 140: second 0, capabilities 136);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::struct_version;

    #[test]
    fn versioned_structs_have_the_versions_that_the_bindings_give() {
        // nvmlGpuInstanceProfileInfo_v2 and nvmlComputeInstanceProfileInfo_v2 of pynvml.py
        assert_eq!(struct_version::<GpuProfileInfoV2>(2), 0x0200_0098);
        assert_eq!(struct_version::<GpuProfileInfoV3>(3), 0x0300_0098);
        assert_eq!(struct_version::<ComputeProfileInfoV2>(2), 0x0200_0088);
        assert_eq!(struct_version::<ComputeProfileInfoV3>(3), 0x0300_008c);
    }
}
