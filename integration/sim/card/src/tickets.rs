//! Calls on their way from a `cuCheckpointProcess…` caller to the driver thread of another process.
//!
//! The caller gets a ticket and sends it along with a signal; the woken thread shows it here and gets the deed. The
//! caller hears the outcome only when the thread's connection has ended, so that it never finds the target still
//! holding a socket. A call whose caller has gone before the thread came is void.

use std::collections::HashMap;
use std::io::{self, Read};

use baton_sim_wire::{Channel, Deed};

/// A number that nobody guesses.
///
/// # Errors
/// When the kernel has none.
pub fn random() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Calls that nobody has taken yet.
#[derive(Debug, Default)]
pub struct Tickets {
    waiting: HashMap<u64, (Deed, Channel)>,
}

impl Tickets {
    /// A new ticket. Numbers are random: a stale signal inside a checkpoint must not match a call on another machine.
    pub fn issue(&mut self, deed: Deed, caller: Channel) -> io::Result<u64> {
        let ticket = random()?;
        self.waiting.insert(ticket, (deed, caller));
        Ok(ticket)
    }

    /// Hands the call over.
    pub fn take(&mut self, ticket: u64) -> Option<(Deed, Channel)> {
        self.waiting.remove(&ticket)
    }

    /// The caller has gone.
    pub fn void(&mut self, ticket: u64) {
        self.waiting.remove(&ticket);
    }
}
