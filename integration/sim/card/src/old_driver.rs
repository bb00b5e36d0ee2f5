//! What the libraries of a driver do not have yet.

use baton_sim_model::cuda_version;

/// The functions of both libraries that came after CUDA 12.4, by the version that brought them: of libcuda as the names of
/// the types in `cudaTypedefs.h` (CUDA 13.5) say, of NVML by the first `nvml.h` with it (12.4 to 13.5; there is none of
/// 12.7).
const ADDED: &[(i32, &[&str])] = &[
    (
        12050,
        &[
            "cuCtxCreate_v4",
            "cuStreamGetCtx_v2",
            "cuStreamGetCtx_v2_ptsz",
            "nvmlDeviceGetCapabilities",
            "nvmlDeviceGetClockOffsets",
            "nvmlDeviceGetDriverModel_v2",
            "nvmlDeviceSetClockOffsets",
        ],
    ),
    (12060, &["nvmlSystemGetDriverBranch", "nvmlVgpuTypeGetBAR1Info"]),
    (
        12080,
        &[
            "cuCheckpointProcessCheckpoint",
            "cuCheckpointProcessGetRestoreThreadId",
            "cuCheckpointProcessGetState",
            "cuCheckpointProcessLock",
            "cuCheckpointProcessRestore",
            "cuCheckpointProcessUnlock",
            "cuEventElapsedTime_v2",
            "cuStreamGetDevice",
            "cuStreamGetDevice_ptsz",
            "nvmlDeviceGetCoolerInfo",
            "nvmlDeviceGetCurrentClockFreqs",
            "nvmlDeviceGetDramEncryptionMode",
            "nvmlDeviceGetFanSpeedRPM",
            "nvmlDeviceGetMarginTemperature",
            "nvmlDeviceGetNvlinkBwMode",
            "nvmlDeviceGetNvlinkSupportedBwModes",
            "nvmlDeviceGetPerformanceModes",
            "nvmlDeviceGetPlatformInfo",
            "nvmlDeviceGetTemperatureV",
            "nvmlDevicePowerSmoothingActivatePresetProfile",
            "nvmlDevicePowerSmoothingSetState",
            "nvmlDevicePowerSmoothingUpdatePresetProfileParam",
            "nvmlDeviceSetDramEncryptionMode",
            "nvmlDeviceSetNvlinkBwMode",
            "nvmlDeviceWorkloadPowerProfileClearRequestedProfiles",
            "nvmlDeviceWorkloadPowerProfileGetCurrentProfiles",
            "nvmlDeviceWorkloadPowerProfileGetProfilesInfo",
            "nvmlDeviceWorkloadPowerProfileSetRequestedProfiles",
            "nvmlVgpuInstanceGetRuntimeStateSize",
        ],
    ),
    (
        12090,
        &[
            "nvmlDeviceGetHandleByUUIDV",
            "nvmlGpuInstanceGetActiveVgpus",
            "nvmlGpuInstanceGetCreatableVgpus",
            "nvmlGpuInstanceGetVgpuHeterogeneousMode",
            "nvmlGpuInstanceGetVgpuSchedulerLog",
            "nvmlGpuInstanceGetVgpuSchedulerState",
            "nvmlGpuInstanceGetVgpuTypeCreatablePlacements",
            "nvmlGpuInstanceSetVgpuHeterogeneousMode",
            "nvmlGpuInstanceSetVgpuSchedulerState",
            "nvmlSystemEventSetCreate",
            "nvmlSystemEventSetFree",
            "nvmlSystemEventSetWait",
            "nvmlSystemRegisterEvents",
            "nvmlVgpuTypeGetMaxInstancesPerGpuInstance",
        ],
    ),
    (
        13000,
        &[
            "cuCtxGetDevice_v2",
            "cuCtxSynchronize_v2",
            "nvmlDeviceGetAddressingMode",
            "nvmlDeviceGetGpuInstanceProfileInfoByIdV",
            "nvmlDeviceGetNvLinkInfo",
            "nvmlDeviceGetPdi",
            "nvmlDeviceGetPowerMizerMode_v1",
            "nvmlDeviceGetRepairStatus",
            "nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts",
            "nvmlDeviceReadWritePRM_v1",
            "nvmlDeviceSetPowerMizerMode_v1",
        ],
    ),
    (
        13010,
        &[
            "cuLaunchHostFunc_v2",
            "cuLaunchHostFunc_v2_ptsz",
            "nvmlDeviceGetHostname_v1",
            "nvmlDeviceGetUnrepairableMemoryFlag_v1",
            "nvmlDeviceReadPRMCounters_v1",
            "nvmlDeviceSetHostname_v1",
            "nvmlDeviceSetRusdSettings_v1",
            "nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1",
        ],
    ),
    (
        13020,
        &[
            "nvmlDeviceGetVgpuSchedulerLog_v2",
            "nvmlDeviceGetVgpuSchedulerState_v2",
            "nvmlDeviceSetVgpuSchedulerState_v2",
            "nvmlDeviceVgpuForceGspUnload",
            "nvmlGpuInstanceGetVgpuSchedulerLog_v2",
            "nvmlGpuInstanceGetVgpuSchedulerState_v2",
            "nvmlGpuInstanceSetVgpuSchedulerState_v2",
        ],
    ),
    (
        13030,
        &[
            "nvmlDeviceGetAccountingStats_v2",
            "nvmlDeviceGetBBXTimeData_v1",
            "nvmlDeviceGetRemappedRows_v2",
            "nvmlSystemGetCPER_v1",
        ],
    ),
    (
        13040,
        &[
            "nvmlDeviceGetAdaptiveTgpModeInfo_v1",
            "nvmlDeviceGetBankRemapperStatus_v1",
            "nvmlDeviceGetGpuFabricInfo_v4",
            "nvmlDeviceGetMemoryLimits_v1",
            "nvmlDeviceGetNvLinkTelemetrySamples_v1",
            "nvmlDevicePerfMetricsGetSamples_v1",
            "nvmlDeviceSetAdaptiveTgpMode_v1",
            "nvmlDeviceSetMemoryLimits_v1",
            "nvmlDeviceSetNvlinkBwModeAsync_v1",
            "nvmlEventSetGetContextCount_v1",
            "nvmlEventSetGetContextData_v1",
            "nvmlEventSetGetContextInfo_v1",
            "nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1",
            "nvmlEventSetRegisterGpuOperationalEvents_v1",
            "nvmlEventSetWait_v3",
        ],
    ),
    (
        13050,
        &[
            "nvmlDeviceGetGpuUptime_v1",
            "nvmlDeviceGetNvLinkInfo_v3",
            "nvmlDeviceGetNvlinkNvlePrivateInfo_v1",
            "nvmlDeviceGetNvlinkRemapTableInfo_v1",
            "nvmlDeviceLockNvlinkRemapTable_v1",
            "nvmlDeviceSetNvlinkNvleReady_v1",
            "nvmlDeviceSetupNvlinkNvleEncryptionKey_v1",
            "nvmlSystemGetConfComputeSettings_v2",
        ],
    ),
];

/// Takes out of a library what the driver of that version does not have: names are overwritten, so that the loader, which
/// looks for the hash of a name and compares, does not find them.
pub fn take_away(library: &mut [u8], driver: &str) {
    let branch = driver.split('.').next().and_then(|first| first.parse().ok()).unwrap_or(0);
    let cuda = cuda_version(branch).unwrap_or(0);
    for name in library.split_mut(|byte| *byte == 0).filter(|name| came_after(cuda, name)) {
        name[..2].copy_from_slice(b"__");
    }
}

fn came_after(cuda: i32, name: &[u8]) -> bool {
    let mut newer = ADDED.iter().filter(|(since, _)| *since > cuda).flat_map(|(_, names)| *names);
    (name.starts_with(b"cu") || name.starts_with(b"nvml")) && newer.any(|newer| newer.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_has_the_names_of_its_time() {
        let whole =
            *b"\0cuInit\0cuCheckpointProcessLock\0cuCtxGetDevice\0cuCtxGetDevice_v2\0nvmlSystemGetCPER_v1\0cuCheck";
        let of = |driver| {
            let mut library = whole;
            take_away(&mut library, driver);
            library
        };
        assert_eq!(
            &of("565.57.01"),
            b"\0cuInit\0__CheckpointProcessLock\0cuCtxGetDevice\0__CtxGetDevice_v2\0__mlSystemGetCPER_v1\0cuCheck"
        );
        assert_eq!(
            &of("570.86.10"),
            b"\0cuInit\0cuCheckpointProcessLock\0cuCtxGetDevice\0__CtxGetDevice_v2\0__mlSystemGetCPER_v1\0cuCheck"
        );
        assert_eq!(
            &of("580.95.05"),
            b"\0cuInit\0cuCheckpointProcessLock\0cuCtxGetDevice\0cuCtxGetDevice_v2\0__mlSystemGetCPER_v1\0cuCheck"
        );
        assert_eq!(of("610.10"), whole);
        assert_eq!(of("no version"), of("550.54.14"));
    }

    /// The texts of the library's own tables: `"name" since … symbol`, where a symbol ends with `;` or its arguments begin.
    const TABLES: [&str; 2] =
        [include_str!("../../cuda/src/symbols.rs"), include_str!("../../cuda/src/lookup/per_thread.rs")];

    #[test]
    fn what_libcuda_says_of_its_functions_is_what_is_taken_away() {
        let mut functions = 0;
        for line in TABLES.iter().flat_map(|table| table.lines()).filter_map(|line| line.strip_prefix("    \"cu")) {
            let entry = line.split([';', '(']).next().unwrap_or_default();
            let words: Vec<&str> = entry.split(' ').collect();
            let [_, since, .., symbol] = words[..] else { panic!("{line}") };
            let since = since.parse().expect("a version");
            assert!(!came_after(since, symbol.as_bytes()), "{symbol} came with {since}");
            assert!(since <= 12040 || came_after(since - 10, symbol.as_bytes()), "{symbol} came with {since}");
            functions += 1;
        }
        assert!(functions >= 157 + 43, "both tables are read");
    }
}
