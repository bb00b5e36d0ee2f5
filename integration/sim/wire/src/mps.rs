//! What an MPS control daemon and those who connect to its socket say to each other, in the same frames.

use serde::{Deserialize, Serialize};

/// Name of the daemon's socket in its pipe directory.
pub const MPS_SOCKET: &str = "control";

/// `CUDA_ERROR_MPS_CONNECTION_FAILED`: there is no daemon, or it does not take the client.
pub const MPS_CONNECTION_FAILED: i32 = 805;
/// `CUDA_ERROR_MPS_SERVER_NOT_READY`: the server is in state FAULT, or is being shut down.
pub const MPS_SERVER_NOT_READY: i32 = 807;
/// `CUDA_ERROR_MPS_MAX_CLIENTS_REACHED`.
pub const MPS_MAX_CLIENTS_REACHED: i32 = 808;
/// `CUDA_ERROR_MPS_CLIENT_TERMINATED`.
pub const MPS_CLIENT_TERMINATED: i32 = 810;

/// A question to the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MpsRequest {
    /// A line that an administrator typed → [`MpsReply::Text`], and then the end of the connection.
    Command {
        /// The line.
        line: String,
    },
    /// A CUDA program wants to be a client → [`MpsReply::Welcome`] or `Refused`, perhaps after a wait for its turn. It is
    /// one until the connection ends; when the daemon ends it, the client has been terminated.
    Client {
        /// The cards that it sees.
        cards: Vec<String>,
        /// What it asks for itself in `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`.
        threads: Option<u32>,
    },
    /// A client has done what kills every client of its cards. No reply.
    Faulted,
}

/// An answer of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MpsReply {
    /// What the command prints.
    Text {
        /// Lines.
        text: String,
        /// Whether the command was carried out.
        done: bool,
    },
    /// The program is a client now.
    Welcome {
        /// The pid of its server, as the daemon sees it.
        server: i32,
        /// Its share of the multiprocessors, in percent.
        threads: u32,
        /// The most memory that it may have of a card: UUIDs and bytes.
        memory: Vec<(String, u64)>,
    },
    /// The program is no client.
    Refused {
        /// A `CUresult`.
        code: i32,
    },
}
