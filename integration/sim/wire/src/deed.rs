//! What the driver thread of a process is asked to do, and how tests have it go wrong.

use serde::{Deserialize, Serialize};

/// What the caller of a `cuCheckpointProcess…` function wants the target's driver thread to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deed {
    /// Report the state.
    State,
    /// Block later calls; give up after `timeout_ms` (0: never).
    Lock {
        /// Milliseconds.
        timeout_ms: u32,
    },
    /// Move device memory to host memory and let go of the cards.
    Checkpoint,
    /// Take cards again; an empty map means "the same ones".
    Restore {
        /// Old and new UUIDs.
        pairs: Vec<UuidPair>,
    },
    /// Let blocked calls go on.
    Unlock,
}

/// One line of a device map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UuidPair {
    /// The card at the checkpoint.
    pub old: [u8; 16],
    /// The card to use from now on.
    pub new: [u8; 16],
}

/// What a test has ordered for the deed at hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOrders {
    /// Copying speed in bytes per second; 0 means unlimited.
    pub copy_rate: u64,
    /// The deed fails with this `CUresult`.
    pub fail: Option<i32>,
    /// A lock never sees the submitted work end.
    pub lock_hang: bool,
    /// What goes wrong before the deed is begun.
    pub fault: Option<FaultAction>,
    /// The driver can checkpoint a process on a MIG device, which no real one could yet.
    pub can_mig: bool,
    /// The driver can checkpoint an MPS client, which no real one could yet.
    pub can_mps: bool,
}

/// What a call does instead of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultAction {
    /// Returns this `CUresult` or `nvmlReturn_t` and does nothing.
    Error(i32),
    /// Waits that many milliseconds, then does its work.
    Delay(u64),
    /// Never returns.
    Hang,
    /// Ends the process with `SIGABRT`.
    Crash,
}
