//! The variants of functions for which stream 0 is the calling thread's own: what programs get that are built with
//! `--default-stream per-thread`. Those that name a stream end with `_ptsz`, those that only work in the default one with
//! `_ptds`.
//!
//! Each is another function's work at another place: a fault for it is ordered by the name of the function that does it,
//! the one without that ending, or the asynchronous one. Sets of rectangles are done in the legacy stream, which comes
//! after the thread's own as after all that block.

use std::ffi::c_void;

use crate::codes::Code;
use crate::symbols::Symbol;
use crate::table::Handle;
use crate::{allocation, copy, copy_2d, event, launch, pool, set, stream_calls};

/// `CU_STREAM_PER_THREAD` of cuda.h.
const OWN: Handle = 2;

/// The thread's own stream for 0.
fn own(stream: Handle) -> Handle {
    if stream == 0 { OWN } else { stream }
}

/// Work that was put into the thread's own stream, waited for if it could be.
fn done(code: i32) -> i32 {
    if code == 0 { stream_calls::cuStreamSynchronize(OWN) } else { code }
}

/// Each variant: what it is asked for by, the first CUDA version with it (`cudaTypedefs.h` of CUDA 13.5), its symbol and
/// arguments, and the call that does its work.
macro_rules! variants {
    ($($name:literal $since:literal $symbol:ident($($argument:ident: $kind:ty),*) = $work:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $symbol($($argument: $kind),*) -> i32 {
                #[allow(unused_unsafe, reason = "some of them are safe to call")]
                // SAFETY: what the C caller promises of the arguments is what that function asks of them.
                unsafe { $work }
            }
        )*

        /// All of them, by name.
        pub static VARIANTS: &[Symbol] = &[
            $(Symbol {
                name: $name,
                since: $since,
                symbol: stringify!($symbol),
                address: $symbol as *const c_void,
            },)*
        ];
    };
}

type Copy2D = *const copy_2d::Copy2D;
type Bytes = *mut c_void;
type Parameters = *const *const u8;
type HostFunction = Option<stream_calls::HostFunction>;

variants! {
    "cuEventRecord" 7000 cuEventRecord_ptsz(event: Handle, stream: Handle) = event::cuEventRecord(event, own(stream));
    "cuEventRecordWithFlags" 11010 cuEventRecordWithFlags_ptsz(event: Handle, stream: Handle, flags: u32) =
        event::cuEventRecordWithFlags(event, own(stream), flags);
    "cuLaunchCooperativeKernel" 9000 cuLaunchCooperativeKernel_ptsz(
        function: Handle, x: u32, y: u32, z: u32, of_x: u32, of_y: u32, of_z: u32, shared: u32, stream: Handle,
        parameters: Parameters
    ) = launch::cuLaunchCooperativeKernel(function, x, y, z, of_x, of_y, of_z, shared, own(stream), parameters);
    "cuLaunchHostFunc" 10000 cuLaunchHostFunc_ptsz(stream: Handle, function: HostFunction, data: *mut c_void) =
        stream_calls::cuLaunchHostFunc(own(stream), function, data);
    "cuLaunchHostFunc" 13010 cuLaunchHostFunc_v2_ptsz(
        stream: Handle, function: HostFunction, data: *mut c_void, sync_mode: u32
    ) = stream_calls::cuLaunchHostFunc_v2(own(stream), function, data, sync_mode);
    "cuLaunchKernel" 7000 cuLaunchKernel_ptsz(
        function: Handle, x: u32, y: u32, z: u32, of_x: u32, of_y: u32, of_z: u32, shared: u32, stream: Handle,
        parameters: Parameters, extra: *const usize
    ) = launch::cuLaunchKernel(function, x, y, z, of_x, of_y, of_z, shared, own(stream), parameters, extra);
    "cuLaunchKernelEx" 11060 cuLaunchKernelEx_ptsz(
        config: *const launch::Config, function: Handle, parameters: Parameters, extra: *const usize
    ) = {
        if config.is_null() {
            return Code::INVALID_VALUE.0;
        }
        let mut config = config.read();
        config.stream = own(config.stream);
        launch::cuLaunchKernelEx(&raw const config, function, parameters, extra)
    };
    "cuMemAllocAsync" 11020 cuMemAllocAsync_ptsz(pointer: *mut u64, bytes: usize, stream: Handle) =
        allocation::cuMemAllocAsync(pointer, bytes, own(stream));
    "cuMemAllocFromPoolAsync" 11020 cuMemAllocFromPoolAsync_ptsz(
        pointer: *mut u64, bytes: usize, from: Handle, stream: Handle
    ) = pool::cuMemAllocFromPoolAsync(pointer, bytes, from, own(stream));
    "cuMemFreeAsync" 11020 cuMemFreeAsync_ptsz(pointer: u64, stream: Handle) =
        allocation::cuMemFreeAsync(pointer, own(stream));
    "cuMemcpy" 7000 cuMemcpy_ptds(to: u64, from: u64, bytes: usize) = done(copy::cuMemcpyAsync(to, from, bytes, OWN));
    "cuMemcpy2D" 7000 cuMemcpy2D_v2_ptds(what: Copy2D) = done(copy_2d::cuMemcpy2DAsync_v2(what, OWN));
    "cuMemcpy2DAsync" 7000 cuMemcpy2DAsync_v2_ptsz(what: Copy2D, stream: Handle) =
        copy_2d::cuMemcpy2DAsync_v2(what, own(stream));
    "cuMemcpy2DUnaligned" 7000 cuMemcpy2DUnaligned_v2_ptds(what: Copy2D) =
        done(copy_2d::cuMemcpy2DAsync_v2(what, OWN));
    "cuMemcpyAsync" 7000 cuMemcpyAsync_ptsz(to: u64, from: u64, bytes: usize, stream: Handle) =
        copy::cuMemcpyAsync(to, from, bytes, own(stream));
    "cuMemcpyDtoD" 7000 cuMemcpyDtoD_v2_ptds(to: u64, from: u64, bytes: usize) =
        done(copy::cuMemcpyDtoDAsync_v2(to, from, bytes, OWN));
    "cuMemcpyDtoDAsync" 7000 cuMemcpyDtoDAsync_v2_ptsz(to: u64, from: u64, bytes: usize, stream: Handle) =
        copy::cuMemcpyDtoDAsync_v2(to, from, bytes, own(stream));
    "cuMemcpyDtoH" 7000 cuMemcpyDtoH_v2_ptds(to: Bytes, from: u64, bytes: usize) =
        done(copy::cuMemcpyDtoHAsync_v2(to, from, bytes, OWN));
    "cuMemcpyDtoHAsync" 7000 cuMemcpyDtoHAsync_v2_ptsz(to: Bytes, from: u64, bytes: usize, stream: Handle) =
        copy::cuMemcpyDtoHAsync_v2(to, from, bytes, own(stream));
    "cuMemcpyHtoD" 7000 cuMemcpyHtoD_v2_ptds(to: u64, from: *const c_void, bytes: usize) =
        done(copy::cuMemcpyHtoDAsync_v2(to, from, bytes, OWN));
    "cuMemcpyHtoDAsync" 7000 cuMemcpyHtoDAsync_v2_ptsz(to: u64, from: *const c_void, bytes: usize, stream: Handle) =
        copy::cuMemcpyHtoDAsync_v2(to, from, bytes, own(stream));
    "cuMemcpyPeer" 7000 cuMemcpyPeer_ptds(to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize) =
        done(copy::cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, OWN));
    "cuMemcpyPeerAsync" 7000 cuMemcpyPeerAsync_ptsz(
        to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize, stream: Handle
    ) = copy::cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, own(stream));
    "cuMemsetD16" 7000 cuMemsetD16_v2_ptds(to: u64, value: u16, count: usize) =
        done(set::cuMemsetD16Async(to, value, count, OWN));
    "cuMemsetD16Async" 7000 cuMemsetD16Async_ptsz(to: u64, value: u16, count: usize, stream: Handle) =
        set::cuMemsetD16Async(to, value, count, own(stream));
    "cuMemsetD2D16" 7000 cuMemsetD2D16_v2_ptds(to: u64, pitch: usize, value: u16, width: usize, height: usize) =
        set::cuMemsetD2D16_v2(to, pitch, value, width, height);
    "cuMemsetD2D32" 7000 cuMemsetD2D32_v2_ptds(to: u64, pitch: usize, value: u32, width: usize, height: usize) =
        set::cuMemsetD2D32_v2(to, pitch, value, width, height);
    "cuMemsetD2D8" 7000 cuMemsetD2D8_v2_ptds(to: u64, pitch: usize, value: u8, width: usize, height: usize) =
        set::cuMemsetD2D8_v2(to, pitch, value, width, height);
    "cuMemsetD32" 7000 cuMemsetD32_v2_ptds(to: u64, value: u32, count: usize) =
        done(set::cuMemsetD32Async(to, value, count, OWN));
    "cuMemsetD32Async" 7000 cuMemsetD32Async_ptsz(to: u64, value: u32, count: usize, stream: Handle) =
        set::cuMemsetD32Async(to, value, count, own(stream));
    "cuMemsetD8" 7000 cuMemsetD8_v2_ptds(to: u64, value: u8, count: usize) =
        done(set::cuMemsetD8Async(to, value, count, OWN));
    "cuMemsetD8Async" 7000 cuMemsetD8Async_ptsz(to: u64, value: u8, count: usize, stream: Handle) =
        set::cuMemsetD8Async(to, value, count, own(stream));
    "cuStreamAddCallback" 7000 cuStreamAddCallback_ptsz(
        stream: Handle, callback: Option<stream_calls::Callback>, data: *mut c_void, flags: u32
    ) = stream_calls::cuStreamAddCallback(own(stream), callback, data, flags);
    "cuStreamGetCtx" 9020 cuStreamGetCtx_ptsz(stream: Handle, context: *mut Handle) =
        stream_calls::cuStreamGetCtx(own(stream), context);
    "cuStreamGetCtx" 12050 cuStreamGetCtx_v2_ptsz(stream: Handle, context: *mut Handle, green: *mut Handle) =
        stream_calls::cuStreamGetCtx_v2(own(stream), context, green);
    "cuStreamGetDevice" 12080 cuStreamGetDevice_ptsz(stream: Handle, device: *mut i32) =
        stream_calls::cuStreamGetDevice(own(stream), device);
    "cuStreamGetFlags" 7000 cuStreamGetFlags_ptsz(stream: Handle, flags: *mut u32) =
        stream_calls::cuStreamGetFlags(own(stream), flags);
    "cuStreamGetId" 12000 cuStreamGetId_ptsz(stream: Handle, id: *mut u64) =
        stream_calls::cuStreamGetId(own(stream), id);
    "cuStreamGetPriority" 7000 cuStreamGetPriority_ptsz(stream: Handle, priority: *mut i32) =
        stream_calls::cuStreamGetPriority(own(stream), priority);
    "cuStreamIsCapturing" 10000 cuStreamIsCapturing_ptsz(stream: Handle, status: *mut u32) =
        stream_calls::cuStreamIsCapturing(own(stream), status);
    "cuStreamQuery" 7000 cuStreamQuery_ptsz(stream: Handle) = stream_calls::cuStreamQuery(own(stream));
    "cuStreamSynchronize" 7000 cuStreamSynchronize_ptsz(stream: Handle) =
        stream_calls::cuStreamSynchronize(own(stream));
    "cuStreamWaitEvent" 7000 cuStreamWaitEvent_ptsz(stream: Handle, event: Handle, flags: u32) =
        stream_calls::cuStreamWaitEvent(own(stream), event, flags);
}
