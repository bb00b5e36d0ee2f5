//! `CUlimit` of a context: remembered, without effect.

use crate::codes::{Code, Outcome};

/// `CU_LIMIT_STACK_SIZE` to `CU_LIMIT_SHMEM_SIZE` of cuda.h.
const COUNT: usize = 8;

/// The limits of one context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits([usize; COUNT]);

impl Default for Limits {
    /// Stack 1 KiB, printf 1 MiB, heap 8 MiB, synchronize depth 2, pending launches 2048, L2 fetch 128 bytes: the values
    /// that NVIDIA's programming guide gives.
    fn default() -> Limits {
        Limits([1 << 10, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0])
    }
}

impl Limits {
    /// One of them.
    pub fn get(&self, limit: u32) -> Outcome<usize> {
        self.0.get(limit as usize).copied().ok_or(Code::UNSUPPORTED_LIMIT)
    }

    /// Sets one.
    pub fn set(&mut self, limit: u32, value: usize) -> Outcome {
        *self.0.get_mut(limit as usize).ok_or(Code::UNSUPPORTED_LIMIT)? = value;
        Ok(())
    }
}
