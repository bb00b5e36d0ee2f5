//! What the driver says about a CUDA process.

use std::fmt;

/// `CUprocessState`, as numbered by the driver; newer drivers may know more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CudaState {
    /// CUDA calls go through.
    Running,
    /// CUDA calls block.
    Locked,
    /// The GPU memory is in host memory, the card is let go.
    Checkpointed,
    /// A checkpoint or a restore failed for good.
    Failed,
    /// On its way to storage of the caller (CUDA 13.4).
    Checkpointing,
    /// On its way back from there (CUDA 13.4).
    Restoring,
    /// A state of a driver newer than this text.
    Other(u32),
}

impl CudaState {
    /// From the driver's number.
    pub const fn from_raw(raw: u32) -> CudaState {
        match raw {
            0 => CudaState::Running,
            1 => CudaState::Locked,
            2 => CudaState::Checkpointed,
            3 => CudaState::Failed,
            4 => CudaState::Checkpointing,
            5 => CudaState::Restoring,
            raw => CudaState::Other(raw),
        }
    }
}

impl fmt::Display for CudaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CudaState::Running => "running",
            CudaState::Locked => "locked",
            CudaState::Checkpointed => "checkpointed",
            CudaState::Failed => "failed",
            CudaState::Checkpointing => "checkpointing",
            CudaState::Restoring => "restoring",
            CudaState::Other(raw) => return write!(f, "unknown ({raw})"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_drivers() {
        let names: Vec<_> = (0..7).map(|raw| CudaState::from_raw(raw).to_string()).collect();
        let known = ["running", "locked", "checkpointed", "failed", "checkpointing", "restoring", "unknown (6)"];
        assert_eq!(names, known);
    }
}
