//! The checkpoint API, for those who compare a driver with what is known of it.
//!
//! Every block of arguments has 64 bytes in every release (CUDA 12.8 to 13.4); zeroes are valid for each.

use std::ffi::c_void;

use crate::{Driver, Result};

/// `CUprocessState` in cuda.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// `CU_PROCESS_STATE_RUNNING`.
    Running,
    /// `CU_PROCESS_STATE_LOCKED`.
    Locked,
    /// `CU_PROCESS_STATE_CHECKPOINTED`.
    Checkpointed,
    /// `CU_PROCESS_STATE_FAILED`.
    Failed,
    /// Any other number.
    Other(u32),
}

/// What was, and what is to be, the UUID of a card.
pub type Pair = ([u8; 16], [u8; 16]);

#[repr(C, align(8))]
struct Args([u8; 64]);

impl Args {
    fn at(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

impl Driver {
    /// The thread of a process that does this work; an error for one without the driver.
    pub fn restore_thread(&self, pid: i32) -> Result<i32> {
        let mut tid = 0;
        // SAFETY: a place for an int.
        unsafe { self.calls.checkpoint_thread(pid, &raw mut tid) }?;
        Ok(tid)
    }

    /// The state of a process.
    pub fn process_state(&self, pid: i32) -> Result<State> {
        let mut state = u32::MAX;
        // SAFETY: a place for the state.
        unsafe { self.calls.checkpoint_state(pid, &raw mut state) }?;
        Ok(match state {
            0 => State::Running,
            1 => State::Locked,
            2 => State::Checkpointed,
            3 => State::Failed,
            other => State::Other(other),
        })
    }

    /// Holds up the CUDA calls of a process once its work is done; 0 waits for ever.
    pub fn lock_process(&self, pid: i32, timeout_ms: u32) -> Result<()> {
        // CUcheckpointLockArgs: `unsigned int timeoutMs` @0.
        let mut args = Args([0; 64]);
        args.0[..4].copy_from_slice(&timeout_ms.to_ne_bytes());
        // SAFETY: a whole block.
        unsafe { self.calls.checkpoint_lock(pid, args.at()) }
    }

    /// Moves its device memory to the host.
    pub fn checkpoint_process(&self, pid: i32) -> Result<()> {
        // SAFETY: a whole block.
        unsafe { self.calls.checkpoint(pid, Args([0; 64]).at()) }
    }

    /// Moves it back, to the cards that `pairs` say, or to those that it came from.
    pub fn restore_process(&self, pid: i32, pairs: &[Pair]) -> Result<()> {
        // CUcheckpointRestoreArgs of CUDA 13: `CUcheckpointGpuPair *gpuPairs` @0, `unsigned int gpuPairsCount` @8; a pair
        // is two CUuuid, old and new.
        let flat: Vec<[u8; 16]> = pairs.iter().flat_map(|(old, new)| [*old, *new]).collect();
        let mut args = Args([0; 64]);
        if !pairs.is_empty() {
            args.0[..8].copy_from_slice(&(flat.as_ptr() as u64).to_ne_bytes());
            args.0[8..12].copy_from_slice(&(pairs.len() as u32).to_ne_bytes());
        }
        // SAFETY: a whole block, and the pairs live through the call.
        unsafe { self.calls.checkpoint_restore(pid, args.at()) }
    }

    /// Lets its CUDA calls go on.
    pub fn unlock_process(&self, pid: i32) -> Result<()> {
        // SAFETY: a whole block.
        unsafe { self.calls.checkpoint_unlock(pid, Args([0; 64]).at()) }
    }
}
