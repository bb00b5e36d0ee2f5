//! `libcuda.so.1`, the one place where it is met.
//!
//! Argument structures are 64 bytes in every release so far, and zeroed ones are valid in all of them. Only
//! these fields are written (`cuda.h` of CUDA 12.8 to 13.4):
//!
//! | structure | field |
//! |---|---|
//! | `CUcheckpointLockArgs` | `unsigned timeoutMs` at 0 |
//! | `CUcheckpointRestoreArgs`, from 13.0 | `CUcheckpointGpuPair *gpuPairs` at 0, `unsigned gpuPairsCount` at 8 |
//! | `CUcheckpointGpuPair` | `CUuuid oldUuid` at 0, `newUuid` at 16 |

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;

use baton_devices::GpuUuid;
use baton_fault::{Code, Fault};
use baton_gpu_agent::protocol::GPU_PAIRS_SINCE;
use baton_gpu_agent::refusal::NOT_SUPPORTED;
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

/// `RTLD_NODELETE` of glibc and musl: the driver's threads do not survive unmapping.
const RTLD_NODELETE: c_int = 0x1000;

type Init = unsafe extern "C" fn(c_uint) -> c_int;
type GetInt = unsafe extern "C" fn(*mut c_int) -> c_int;
type GetName = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
type OfProcess<T> = unsafe extern "C" fn(c_int, *mut T) -> c_int;

/// An argument structure.
#[repr(C, align(8))]
#[derive(Default)]
struct Block([u64; 8]);

/// `CUcheckpointGpuPair`.
#[repr(C)]
struct GpuPair {
    old: [u8; 16],
    new: [u8; 16],
}

/// A `CUresult`: 0 is success.
pub type CuResult = u32;

/// The driver, initialised. Its calls block; they may come from any thread.
pub struct Cuda {
    version: u32,
    name: Option<GetName>,
    state: Option<OfProcess<c_uint>>,
    restore_thread: Option<OfProcess<c_int>>,
    lock: Option<OfProcess<Block>>,
    checkpoint: Option<OfProcess<Block>>,
    restore: Option<OfProcess<Block>>,
    unlock: Option<OfProcess<Block>>,
    // Keeps the functions above mapped.
    _library: Library,
}

/// Why the driver is not there.
pub enum NoCuda {
    /// No library, or one that is not CUDA's.
    Missing(Fault),
    /// `cuInit` or `cuDriverGetVersion` failed.
    Refused(CuResult, String),
}

impl Cuda {
    /// Loads the library at `path` and initialises it.
    ///
    /// # Errors
    /// [`NoCuda`].
    pub fn load(path: &Path) -> std::result::Result<Cuda, NoCuda> {
        let loading = |err: libloading::Error| {
            NoCuda::Missing(
                Fault::new(Code::DriverMissing, format!("load {}", path.display()), err)
                    .advise("install the NVIDIA driver, 570 or newer"),
            )
        };
        // SAFETY: the path is the driver's library, found under the driver root that an administrator set;
        // running its initialisers is what this process is for.
        let library = unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE) }.map_err(loading)?;
        // SAFETY: the signatures are those of cuda.h; the functions stay mapped (RTLD_NODELETE).
        let (init, driver_version) = unsafe {
            let init: Init = *library.get(b"cuInit\0").map_err(loading)?;
            let driver_version: GetInt = *library.get(b"cuDriverGetVersion\0").map_err(loading)?;
            (init, driver_version)
        };
        let mut cuda = Cuda::resolve(library);
        let refused = |cuda: &Cuda, code| NoCuda::Refused(code, cuda.name_of(code));
        // SAFETY: cuInit takes flags, which must be 0.
        let code = result(unsafe { init(0) });
        if code != 0 {
            return Err(refused(&cuda, code));
        }
        let mut version = 0;
        // SAFETY: the pointer is valid for one int.
        let code = result(unsafe { driver_version(&mut version) });
        if code != 0 {
            return Err(refused(&cuda, code));
        }
        cuda.version = u32::try_from(version).unwrap_or(0);
        Ok(cuda)
    }

    fn resolve(library: Library) -> Cuda {
        /// A function that older drivers lack.
        ///
        /// # Safety
        /// `F` must be the signature that cuda.h gives `name`.
        unsafe fn find<F: Copy>(library: &Library, name: &[u8]) -> Option<F> {
            // SAFETY: promised by the caller.
            unsafe { library.get::<F>(name) }.ok().map(|symbol| *symbol)
        }
        // SAFETY: the signatures are those of cuda.h; every argument structure is 64 bytes, CUprocessState is
        // an enum of four bytes.
        unsafe {
            Cuda {
                version: 0,
                name: find(&library, b"cuGetErrorName\0"),
                state: find(&library, b"cuCheckpointProcessGetState\0"),
                restore_thread: find(&library, b"cuCheckpointProcessGetRestoreThreadId\0"),
                lock: find(&library, b"cuCheckpointProcessLock\0"),
                checkpoint: find(&library, b"cuCheckpointProcessCheckpoint\0"),
                restore: find(&library, b"cuCheckpointProcessRestore\0"),
                unlock: find(&library, b"cuCheckpointProcessUnlock\0"),
                _library: library,
            }
        }
    }

    /// The driver's version: 1000 × major + 10 × minor of the newest CUDA it speaks.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The raw `CUprocessState` of a process.
    pub fn state(&self, pid: c_int) -> (CuResult, u32) {
        let mut state: c_uint = 0;
        (of_process(self.state, pid, &mut state), state)
    }

    /// The driver's own thread in a CUDA process.
    pub fn restore_thread(&self, pid: c_int) -> (CuResult, i32) {
        let mut thread: c_int = 0;
        (of_process(self.restore_thread, pid, &mut thread), thread)
    }

    /// Blocks its CUDA calls; `timeout_ms` of 0 would wait for ever.
    pub fn lock(&self, pid: c_int, timeout_ms: u32) -> CuResult {
        let mut args = Block::default();
        args.0[0] = word(timeout_ms);
        of_process(self.lock, pid, &mut args)
    }

    /// Moves its GPU memory to host memory.
    pub fn checkpoint(&self, pid: c_int) -> CuResult {
        of_process(self.checkpoint, pid, &mut Block::default())
    }

    /// Moves it back, onto other cards where `map` says so; a driver that takes no map refuses that.
    pub fn restore(&self, pid: c_int, map: &[(GpuUuid, GpuUuid)]) -> CuResult {
        let mut args = Block::default();
        // A map that changes nothing stays away: without one the driver does not migrate.
        let moves = map.iter().any(|(old, new)| old != new);
        let pairs: Vec<GpuPair> =
            map.iter().map(|(old, new)| GpuPair { old: old.to_bytes(), new: new.to_bytes() }).collect();
        if moves && self.version < GPU_PAIRS_SINCE {
            return NOT_SUPPORTED;
        }
        if moves {
            args.0[0] = pairs.as_ptr() as u64;
            args.0[1] = word(u32::try_from(pairs.len()).unwrap_or(u32::MAX));
        }
        // `pairs` lives until after the call.
        of_process(self.restore, pid, &mut args)
    }

    /// Lets its CUDA calls go on.
    pub fn unlock(&self, pid: c_int) -> CuResult {
        of_process(self.unlock, pid, &mut Block::default())
    }

    /// The driver's name of a result.
    pub fn name_of(&self, code: CuResult) -> String {
        let mut text: *const c_char = std::ptr::null();
        if let Some(name) = self.name {
            // SAFETY: the pointer is valid for one pointer.
            unsafe { name(code as c_int, &mut text) };
        }
        if text.is_null() {
            return format!("CUDA_ERROR_{code}");
        }
        // SAFETY: the driver returned a static, terminated string.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

fn of_process<T>(call: Option<OfProcess<T>>, pid: c_int, args: &mut T) -> CuResult {
    match call {
        // SAFETY: the signature is that of cuda.h, `args` is the structure of this call and valid throughout it.
        Some(call) => result(unsafe { call(pid, args) }),
        // A driver older than the call.
        None => NOT_SUPPORTED,
    }
}

/// The word whose first four bytes in memory are `value`.
fn word(value: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&value.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn result(code: c_int) -> CuResult {
    code as CuResult
}

// The driver reads 64 bytes of a block and 32 of a pair.
const _: () = assert!(size_of::<Block>() == 64 && size_of::<GpuPair>() == 32);
const _: () = assert!(size_of::<*mut c_void>() == 8, "args hold 64-bit pointers");
