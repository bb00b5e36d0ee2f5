//! Every function of this library: its name without a version, and the CUDA version that brought this variant
//! (`cudaTypedefs.h` and `cudaProfilerTypedefs.h` of CUDA 13.5 carry it in the names of their types).

use std::ffi::c_void;

/// One variant of a function.
#[derive(Debug)]
pub struct Symbol {
    /// What `cuGetProcAddress` is asked for.
    pub name: &'static str,
    /// The first CUDA version with it: 1000 × major + 10 × minor.
    pub since: i32,
    /// What the loader finds it by.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests tell variants apart by it"))]
    pub symbol: &'static str,
    /// The function.
    pub address: *const c_void,
}

// SAFETY: addresses of functions, which may be read and called from any thread.
unsafe impl Sync for Symbol {}

macro_rules! symbols {
    ($($name:literal $since:literal $module:ident $symbol:ident;)*) => {
        /// All of them, by name.
        pub static SYMBOLS: &[Symbol] = &[
            $(Symbol {
                name: $name,
                since: $since,
                symbol: stringify!($symbol),
                address: crate::$module::$symbol as *const c_void,
            },)*
        ];
    };
}

symbols! {
    "cuCheckpointProcessCheckpoint" 12080 checkpoint cuCheckpointProcessCheckpoint;
    "cuCheckpointProcessGetRestoreThreadId" 12080 checkpoint cuCheckpointProcessGetRestoreThreadId;
    "cuCheckpointProcessGetState" 12080 checkpoint cuCheckpointProcessGetState;
    "cuCheckpointProcessLock" 12080 checkpoint cuCheckpointProcessLock;
    "cuCheckpointProcessRestore" 12080 checkpoint cuCheckpointProcessRestore;
    "cuCheckpointProcessUnlock" 12080 checkpoint cuCheckpointProcessUnlock;
    "cuCtxCreate" 3020 context_calls cuCtxCreate_v2;
    "cuCtxCreate" 11040 context_calls cuCtxCreate_v3;
    "cuCtxCreate" 12050 context_calls cuCtxCreate_v4;
    "cuCtxDestroy" 4000 context_calls cuCtxDestroy_v2;
    "cuCtxDisablePeerAccess" 4000 peer cuCtxDisablePeerAccess;
    "cuCtxEnablePeerAccess" 4000 peer cuCtxEnablePeerAccess;
    "cuCtxGetApiVersion" 3020 context_calls cuCtxGetApiVersion;
    "cuCtxGetCacheConfig" 3020 context_calls cuCtxGetCacheConfig;
    "cuCtxGetCurrent" 4000 context_calls cuCtxGetCurrent;
    "cuCtxGetDevice" 2000 context_calls cuCtxGetDevice;
    "cuCtxGetDevice" 13000 context_calls cuCtxGetDevice_v2;
    "cuCtxGetFlags" 7000 context_calls cuCtxGetFlags;
    "cuCtxGetId" 12000 context_calls cuCtxGetId;
    "cuCtxGetLimit" 3010 context_calls cuCtxGetLimit;
    "cuCtxGetStreamPriorityRange" 5050 context_calls cuCtxGetStreamPriorityRange;
    "cuCtxPopCurrent" 4000 context_calls cuCtxPopCurrent_v2;
    "cuCtxPushCurrent" 4000 context_calls cuCtxPushCurrent_v2;
    "cuCtxSetCacheConfig" 3020 context_calls cuCtxSetCacheConfig;
    "cuCtxSetCurrent" 4000 context_calls cuCtxSetCurrent;
    "cuCtxSetFlags" 12010 context_calls cuCtxSetFlags;
    "cuCtxSetLimit" 3010 context_calls cuCtxSetLimit;
    "cuCtxSynchronize" 2000 context_calls cuCtxSynchronize;
    "cuCtxSynchronize" 13000 context_calls cuCtxSynchronize_v2;
    "cuDeviceCanAccessPeer" 4000 peer cuDeviceCanAccessPeer;
    "cuDeviceComputeCapability" 2000 device cuDeviceComputeCapability;
    "cuDeviceGet" 2000 device cuDeviceGet;
    "cuDeviceGetAttribute" 2000 device cuDeviceGetAttribute;
    "cuDeviceGetByPCIBusId" 4010 device cuDeviceGetByPCIBusId;
    "cuDeviceGetCount" 2000 device cuDeviceGetCount;
    "cuDeviceGetDefaultMemPool" 11020 pool cuDeviceGetDefaultMemPool;
    "cuDeviceGetExecAffinitySupport" 11040 device cuDeviceGetExecAffinitySupport;
    "cuDeviceGetMemPool" 11020 pool cuDeviceGetMemPool;
    "cuDeviceGetName" 2000 device cuDeviceGetName;
    "cuDeviceGetP2PAttribute" 8000 peer cuDeviceGetP2PAttribute;
    "cuDeviceGetPCIBusId" 4010 device cuDeviceGetPCIBusId;
    "cuDeviceGetUuid" 9020 device cuDeviceGetUuid;
    "cuDeviceGetUuid" 11040 device cuDeviceGetUuid_v2;
    "cuDevicePrimaryCtxGetState" 7000 primary cuDevicePrimaryCtxGetState;
    "cuDevicePrimaryCtxRelease" 11000 primary cuDevicePrimaryCtxRelease_v2;
    "cuDevicePrimaryCtxReset" 11000 primary cuDevicePrimaryCtxReset_v2;
    "cuDevicePrimaryCtxRetain" 7000 primary cuDevicePrimaryCtxRetain;
    "cuDevicePrimaryCtxSetFlags" 11000 primary cuDevicePrimaryCtxSetFlags_v2;
    "cuDeviceTotalMem" 3020 device cuDeviceTotalMem_v2;
    "cuDriverGetVersion" 2020 init cuDriverGetVersion;
    "cuEventCreate" 2000 event cuEventCreate;
    "cuEventDestroy" 4000 event cuEventDestroy_v2;
    "cuEventElapsedTime" 2000 event cuEventElapsedTime;
    "cuEventElapsedTime" 12080 event cuEventElapsedTime_v2;
    "cuEventQuery" 2000 event cuEventQuery;
    "cuEventRecord" 2000 event cuEventRecord;
    "cuEventRecordWithFlags" 11010 event cuEventRecordWithFlags;
    "cuEventSynchronize" 2000 event cuEventSynchronize;
    "cuFuncGetAttribute" 2020 function cuFuncGetAttribute;
    "cuFuncGetModule" 11000 function cuFuncGetModule;
    "cuFuncGetName" 12030 function cuFuncGetName;
    "cuFuncGetParamInfo" 12040 function cuFuncGetParamInfo;
    "cuFuncSetAttribute" 9000 function cuFuncSetAttribute;
    "cuFuncSetCacheConfig" 3000 function cuFuncSetCacheConfig;
    "cuGetErrorName" 6000 error_names cuGetErrorName;
    "cuGetErrorString" 6000 error_names cuGetErrorString;
    "cuGetExportTable" 3000 other cuGetExportTable;
    "cuGetProcAddress" 11030 lookup cuGetProcAddress;
    "cuGetProcAddress" 12000 lookup cuGetProcAddress_v2;
    "cuInit" 2000 init cuInit;
    "cuIpcCloseMemHandle" 4010 ipc cuIpcCloseMemHandle;
    "cuIpcGetEventHandle" 4010 ipc cuIpcGetEventHandle;
    "cuIpcGetMemHandle" 4010 ipc cuIpcGetMemHandle;
    "cuIpcOpenEventHandle" 4010 ipc cuIpcOpenEventHandle;
    "cuIpcOpenMemHandle" 11000 ipc cuIpcOpenMemHandle_v2;
    "cuKernelGetFunction" 12000 module cuKernelGetFunction;
    "cuLaunchCooperativeKernel" 9000 launch cuLaunchCooperativeKernel;
    "cuLaunchHostFunc" 10000 stream_calls cuLaunchHostFunc;
    "cuLaunchHostFunc" 13010 stream_calls cuLaunchHostFunc_v2;
    "cuLaunchKernel" 4000 launch cuLaunchKernel;
    "cuLaunchKernelEx" 11060 launch cuLaunchKernelEx;
    "cuLibraryGetKernel" 12000 module cuLibraryGetKernel;
    "cuLibraryGetKernelCount" 12040 module cuLibraryGetKernelCount;
    "cuLibraryLoadData" 12000 module cuLibraryLoadData;
    "cuLibraryUnload" 12000 module cuLibraryUnload;
    "cuMemAddressFree" 10020 address cuMemAddressFree;
    "cuMemAddressReserve" 10020 address cuMemAddressReserve;
    "cuMemAlloc" 3020 allocation cuMemAlloc_v2;
    "cuMemAllocAsync" 11020 allocation cuMemAllocAsync;
    "cuMemAllocFromPoolAsync" 11020 pool cuMemAllocFromPoolAsync;
    "cuMemAllocHost" 3020 host_memory cuMemAllocHost_v2;
    "cuMemAllocManaged" 6000 allocation cuMemAllocManaged;
    "cuMemAllocPitch" 3020 allocation cuMemAllocPitch_v2;
    "cuMemCreate" 10020 physical cuMemCreate;
    "cuMemExportToShareableHandle" 10020 shareable cuMemExportToShareableHandle;
    "cuMemFree" 3020 allocation cuMemFree_v2;
    "cuMemFreeAsync" 11020 allocation cuMemFreeAsync;
    "cuMemFreeHost" 2000 host_memory cuMemFreeHost;
    "cuMemGetAccess" 10020 address cuMemGetAccess;
    "cuMemGetAddressRange" 3020 allocation cuMemGetAddressRange_v2;
    "cuMemGetAllocationGranularity" 10020 physical cuMemGetAllocationGranularity;
    "cuMemGetAllocationPropertiesFromHandle" 10020 physical cuMemGetAllocationPropertiesFromHandle;
    "cuMemGetInfo" 3020 allocation cuMemGetInfo_v2;
    "cuMemHostAlloc" 2020 host_memory cuMemHostAlloc;
    "cuMemHostGetDevicePointer" 3020 host_memory cuMemHostGetDevicePointer_v2;
    "cuMemHostGetFlags" 2030 host_memory cuMemHostGetFlags;
    "cuMemHostRegister" 6050 host_memory cuMemHostRegister_v2;
    "cuMemHostUnregister" 4000 host_memory cuMemHostUnregister;
    "cuMemImportFromShareableHandle" 10020 shareable cuMemImportFromShareableHandle;
    "cuMemMap" 10020 address cuMemMap;
    "cuMemPoolGetAttribute" 11020 pool cuMemPoolGetAttribute;
    "cuMemPoolSetAttribute" 11020 pool cuMemPoolSetAttribute;
    "cuMemPoolTrimTo" 11020 pool cuMemPoolTrimTo;
    "cuMemRelease" 10020 physical cuMemRelease;
    "cuMemRetainAllocationHandle" 11000 physical cuMemRetainAllocationHandle;
    "cuMemSetAccess" 10020 address cuMemSetAccess;
    "cuMemUnmap" 10020 address cuMemUnmap;
    "cuMemcpy" 4000 copy cuMemcpy;
    "cuMemcpy2D" 3020 copy_2d cuMemcpy2D_v2;
    "cuMemcpy2DAsync" 3020 copy_2d cuMemcpy2DAsync_v2;
    "cuMemcpy2DUnaligned" 3020 copy_2d cuMemcpy2DUnaligned_v2;
    "cuMemcpyAsync" 4000 copy cuMemcpyAsync;
    "cuMemcpyDtoD" 3020 copy cuMemcpyDtoD_v2;
    "cuMemcpyDtoDAsync" 3020 copy cuMemcpyDtoDAsync_v2;
    "cuMemcpyDtoH" 3020 copy cuMemcpyDtoH_v2;
    "cuMemcpyDtoHAsync" 3020 copy cuMemcpyDtoHAsync_v2;
    "cuMemcpyHtoD" 3020 copy cuMemcpyHtoD_v2;
    "cuMemcpyHtoDAsync" 3020 copy cuMemcpyHtoDAsync_v2;
    "cuMemcpyPeer" 4000 copy cuMemcpyPeer;
    "cuMemcpyPeerAsync" 4000 copy cuMemcpyPeerAsync;
    "cuMemsetD16" 3020 set cuMemsetD16_v2;
    "cuMemsetD16Async" 3020 set cuMemsetD16Async;
    "cuMemsetD2D16" 3020 set cuMemsetD2D16_v2;
    "cuMemsetD2D32" 3020 set cuMemsetD2D32_v2;
    "cuMemsetD2D8" 3020 set cuMemsetD2D8_v2;
    "cuMemsetD32" 3020 set cuMemsetD32_v2;
    "cuMemsetD32Async" 3020 set cuMemsetD32Async;
    "cuMemsetD8" 3020 set cuMemsetD8_v2;
    "cuMemsetD8Async" 3020 set cuMemsetD8Async;
    "cuModuleGetFunction" 2000 module cuModuleGetFunction;
    "cuModuleGetFunctionCount" 12040 module cuModuleGetFunctionCount;
    "cuModuleGetGlobal" 3020 module cuModuleGetGlobal_v2;
    "cuModuleGetLoadingMode" 11070 module cuModuleGetLoadingMode;
    "cuModuleLoad" 2000 module cuModuleLoad;
    "cuModuleLoadData" 2000 module cuModuleLoadData;
    "cuModuleLoadDataEx" 2010 module cuModuleLoadDataEx;
    "cuModuleLoadFatBinary" 2000 module cuModuleLoadFatBinary;
    "cuModuleUnload" 2000 module cuModuleUnload;
    "cuMulticastAddDevice" 12010 multicast cuMulticastAddDevice;
    "cuMulticastCreate" 12010 multicast cuMulticastCreate;
    "cuMulticastGetGranularity" 12010 multicast cuMulticastGetGranularity;
    "cuOccupancyMaxActiveBlocksPerMultiprocessor" 6050 function cuOccupancyMaxActiveBlocksPerMultiprocessor;
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags" 7000 function cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
    "cuOccupancyMaxPotentialBlockSize" 6050 function cuOccupancyMaxPotentialBlockSize;
    "cuPointerGetAttribute" 4000 pointer cuPointerGetAttribute;
    "cuPointerGetAttributes" 7000 pointer cuPointerGetAttributes;
    "cuPointerSetAttribute" 6000 pointer cuPointerSetAttribute;
    "cuProfilerStart" 4000 other cuProfilerStart;
    "cuProfilerStop" 4000 other cuProfilerStop;
    "cuStreamAddCallback" 5000 stream_calls cuStreamAddCallback;
    "cuStreamCreate" 2000 stream_calls cuStreamCreate;
    "cuStreamCreateWithPriority" 5050 stream_calls cuStreamCreateWithPriority;
    "cuStreamDestroy" 4000 stream_calls cuStreamDestroy_v2;
    "cuStreamGetCtx" 9020 stream_calls cuStreamGetCtx;
    "cuStreamGetCtx" 12050 stream_calls cuStreamGetCtx_v2;
    "cuStreamGetDevice" 12080 stream_calls cuStreamGetDevice;
    "cuStreamGetFlags" 5050 stream_calls cuStreamGetFlags;
    "cuStreamGetId" 12000 stream_calls cuStreamGetId;
    "cuStreamGetPriority" 5050 stream_calls cuStreamGetPriority;
    "cuStreamIsCapturing" 10000 stream_calls cuStreamIsCapturing;
    "cuStreamQuery" 2000 stream_calls cuStreamQuery;
    "cuStreamSynchronize" 2000 stream_calls cuStreamSynchronize;
    "cuStreamWaitEvent" 3020 stream_calls cuStreamWaitEvent;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of every module with functions for C.
    const MODULES: &[&str] = &[
        include_str!("address.rs"),
        include_str!("allocation.rs"),
        include_str!("checkpoint.rs"),
        include_str!("context_calls.rs"),
        include_str!("copy.rs"),
        include_str!("copy_2d.rs"),
        include_str!("device.rs"),
        include_str!("error_names.rs"),
        include_str!("event.rs"),
        include_str!("function.rs"),
        include_str!("host_memory.rs"),
        include_str!("init.rs"),
        include_str!("ipc.rs"),
        include_str!("launch.rs"),
        include_str!("lookup.rs"),
        include_str!("module.rs"),
        include_str!("multicast.rs"),
        include_str!("other.rs"),
        include_str!("peer.rs"),
        include_str!("physical.rs"),
        include_str!("pointer.rs"),
        include_str!("pool.rs"),
        include_str!("primary.rs"),
        include_str!("set.rs"),
        include_str!("shareable.rs"),
        include_str!("stream_calls.rs"),
    ];

    #[test]
    fn every_function_for_c_is_listed_and_says_its_own_name() {
        let mut names = Vec::new();
        for text in MODULES {
            for function in text.split("extern \"C\" fn ").skip(1) {
                let Some((name, body)) = function.split_once('(') else { continue };
                let body = body.split("extern \"C\" fn ").next().unwrap_or(body);
                let ends = body.find("\n}").unwrap_or(body.len());
                let called = body[..ends].split("\"cu").skip(1).map(|rest| rest.split('"').next().unwrap_or(""));
                for called in called {
                    assert_eq!(format!("cu{called}"), name, "a fault is ordered by the name of the function");
                }
                names.push(name);
            }
        }
        names.retain(|name| name.starts_with("cu"));
        names.sort();
        let mut listed: Vec<&str> = SYMBOLS.iter().map(|symbol| symbol.symbol).collect();
        listed.sort();
        assert_eq!(names, listed);
    }

    #[test]
    fn variants_of_a_function_come_one_after_the_other() {
        for pair in SYMBOLS.windows(2).filter(|pair| pair[0].name == pair[1].name) {
            assert!(pair[0].since < pair[1].since, "{}", pair[1].symbol);
        }
    }
}
