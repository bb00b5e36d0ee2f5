//! What goes over the agent's standard input and output: one JSON object in a line.
//!
//! ```text
//! agent  → {"ready":13000}   or {"refused":{"code":100,"name":"CUDA_ERROR_NO_DEVICE"}} or {"failed":"…"}
//! client → {"id":1,"call":"lock","pid":4711,"timeout_ms":20000}
//! agent  → {"id":1,"code":0,"name":"CUDA_SUCCESS","value":0}
//! ```

use std::fmt;

use baton_devices::GpuUuid;
use serde::{Deserialize, Serialize};

/// Longest line, in bytes: a map of 256 cards takes 25 KiB.
pub const LINE_MAX: usize = 64 << 10;
/// Driver version (`cuDriverGetVersion`) from which a restore takes a map of cards.
pub const GPU_PAIRS_SINCE: u32 = 13000;
/// Most cards in a map.
pub const MAP_MAX: usize = 256;

/// What the driver is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// `cuCheckpointProcessGetState`.
    State,
    /// `cuCheckpointProcessGetRestoreThreadId`.
    RestoreThread,
    /// `cuCheckpointProcessLock`.
    Lock,
    /// `cuCheckpointProcessCheckpoint`.
    Checkpoint,
    /// `cuCheckpointProcessRestore`.
    Restore,
    /// `cuCheckpointProcessUnlock`.
    Unlock,
    /// `cuDriverGetVersion`.
    Version,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Call::State => "state",
            Call::RestoreThread => "restore thread",
            Call::Lock => "lock",
            Call::Checkpoint => "checkpoint",
            Call::Restore => "restore",
            Call::Unlock => "unlock",
            Call::Version => "version",
        })
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Comes back in the answer.
    pub id: u64,
    /// What is asked.
    pub call: Call,
    /// The process, as the host numbers it.
    #[serde(default)]
    pub pid: u32,
    /// For a lock: how long the driver waits, in milliseconds.
    #[serde(default)]
    pub timeout_ms: u32,
    /// For a restore: from each card of the checkpoint to its successor.
    #[serde(default)]
    pub map: Vec<(GpuUuid, GpuUuid)>,
}

/// The driver's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Of the request.
    pub id: u64,
    /// `CUresult`.
    pub code: u32,
    /// Its name.
    pub name: String,
    /// The state, the thread id or the version that was asked for.
    #[serde(default)]
    pub value: i64,
}

/// The agent's first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hello {
    /// CUDA is initialised; the driver's version as `cuDriverGetVersion` has it.
    Ready(u32),
    /// The driver refused to start.
    Refused {
        /// `CUresult`.
        code: u32,
        /// Its name.
        name: String,
    },
    /// There is no driver to ask.
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_look_as_written_above() {
        let request: Request =
            serde_json::from_str(r#"{"id":1,"call":"lock","pid":4711,"timeout_ms":20000}"#).expect("request");
        assert_eq!(request, Request { id: 1, call: Call::Lock, pid: 4711, timeout_ms: 20000, map: vec![] });
        let answer: Answer =
            serde_json::from_str(r#"{"id":1,"code":0,"name":"CUDA_SUCCESS","value":0}"#).expect("answer");
        assert_eq!((answer.id, answer.code, answer.value), (1, 0, 0));
        assert_eq!(serde_json::to_string(&Hello::Ready(13000)).expect("hello"), r#"{"ready":13000}"#);
        for bad in [
            r#"{"id":1,"call":"kill","pid":1}"#,
            r#"{"id":1,"call":"lock","pid":-1}"#,
            r#"{"id":1,"call":"lock","x":1}"#,
        ] {
            assert!(serde_json::from_str::<Request>(bad).is_err(), "{bad}");
        }
    }
}
