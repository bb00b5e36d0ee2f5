//! A call that the driver answered with an error, and the numbers (`CUresult`) that matter.

use std::fmt;

use baton_fault::{Code, Fault};

use crate::protocol::Call;

/// `CUDA_ERROR_INVALID_VALUE`; for a process id: no CUDA process.
pub const INVALID_VALUE: u32 = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: u32 = 2;
/// `CUDA_ERROR_NOT_INITIALIZED`.
pub const NOT_INITIALIZED: u32 = 3;
/// `CUDA_ERROR_OPERATING_SYSTEM`.
pub const OPERATING_SYSTEM: u32 = 304;
/// `CUDA_ERROR_ILLEGAL_STATE`.
pub const ILLEGAL_STATE: u32 = 401;
/// `CUDA_ERROR_NOT_READY`; for a lock: the time passed, the process runs on.
pub const NOT_READY: u32 = 600;
/// `CUDA_ERROR_NOT_SUPPORTED`.
pub const NOT_SUPPORTED: u32 = 801;

/// The driver's error, typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverRefusal {
    /// `CUresult`.
    pub code: u32,
    /// Its name as the driver gives it, for instance `CUDA_ERROR_NOT_READY`.
    pub name: String,
    pub(crate) call: Call,
    pub(crate) pid: u32,
}

impl fmt::Display for DriverRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.code)
    }
}

impl From<DriverRefusal> for Fault {
    fn from(refusal: DriverRefusal) -> Fault {
        let what = format!("{} of CUDA process {}", refusal.call, refusal.pid);
        let code = match (refusal.call, refusal.code) {
            (Call::Lock, NOT_READY) => Code::CrLockTimeout,
            (_, NOT_SUPPORTED) => Code::CrUnsupported,
            _ => Code::CrDriver,
        };
        Fault::new(code, what, &refusal).advise(advice(refusal.call, refusal.code))
    }
}

/// What people did about it (`cuda-checkpoint.md` §1.2).
fn advice(call: Call, code: u32) -> &'static str {
    match (call, code) {
        (Call::Lock, NOT_READY) => "try again when its kernels are shorter, or raise save.lock-timeout-s",
        (Call::Restore, INVALID_VALUE) => "every card of the checkpoint must be mapped, to one of the same chip",
        (Call::Restore, OUT_OF_MEMORY) => "the process is lost: end it, free the card, and restore from the image",
        (_, OUT_OF_MEMORY) => "free host memory; MIG instances cannot be checkpointed by drivers of today",
        (_, NOT_INITIALIZED) => "look at the driver and its device nodes on this node",
        (_, OPERATING_SYSTEM) => "run as root, in the host's namespaces",
        (_, ILLEGAL_STATE) => "read its state; something else drives it too",
        (_, NOT_SUPPORTED) => "the driver cannot do this for unified memory, IPC memory, MIG, MPS or vGPU",
        _ => "look at the kernel's log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_number_and_gets_a_stable_code() {
        let fault = |call, code, name: &str| Fault::from(DriverRefusal { code, name: name.into(), call, pid: 7 });
        let timeout = fault(Call::Lock, NOT_READY, "CUDA_ERROR_NOT_READY");
        assert_eq!(timeout.code, Code::CrLockTimeout);
        assert!(timeout.to_string().contains("lock of CUDA process 7: CUDA_ERROR_NOT_READY (600)"), "{timeout}");
        assert_eq!(fault(Call::Restore, OUT_OF_MEMORY, "x").code, Code::CrDriver);
        assert_eq!(fault(Call::Checkpoint, NOT_SUPPORTED, "x").code, Code::CrUnsupported);
        assert_eq!(fault(Call::Checkpoint, NOT_READY, "x").code, Code::CrDriver);
    }
}
