//! The messages.

use serde::{Deserialize, Serialize};

use crate::card::{CardUse, Ledger, Range, RangeWanted};
use crate::deed::{CommandOrders, Deed, FaultAction};
use crate::mig::Change;

/// A question or command to the hardware.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// Which cards are there, and what holds them → [`Reply::Cards`].
    Cards,
    /// A process introduces itself; what it takes on this connection is freed when the connection ends → `Done` with the
    /// page of faults attached: its first `u32` is the number of faults that stand, so that no call asks in vain.
    Hello {
        /// The process's name.
        name: String,
        /// The pid of the MPS server, as the caller sees it, that this process is a client of.
        mps_server: Option<i32>,
    },
    /// Which fault has been ordered for this call of this process? → [`Reply::Fault`]
    Fault {
        /// Name of the C function, or of the deed: `Lock`, `Checkpoint`, `Restore`, `Unlock`, `State`.
        call: String,
    },
    /// Make a context on a device → `Done` or `Refused`.
    Context {
        /// UUID of the card or MIG device.
        device: String,
    },
    /// Destroy a context → `Done`.
    ContextGone {
        /// UUID of the card or MIG device.
        device: String,
    },
    /// Take memory → [`Reply::Range`] with the card's memory attached, or `Refused`.
    Allocate {
        /// What is wanted.
        wanted: RangeWanted,
    },
    /// Give memory back → `Done`.
    Free {
        /// UUID of the card or MIG device.
        device: String,
        /// Offset of the allocation.
        offset: u64,
    },
    /// The memory of a card → `Done` with it attached. A MIG device's lies in its card's.
    Memory {
        /// UUID of the card or MIG device.
        device: String,
    },
    /// Let other processes open an allocation → [`Reply::Key`].
    Export {
        /// UUID of the card or MIG device.
        device: String,
        /// Offset of the allocation.
        offset: u64,
    },
    /// Open an allocation of another process → [`Reply::Range`] with the card's memory attached, or `Refused`. It lives until
    /// its owner and all who opened it have let go.
    Import {
        /// What `Export` gave.
        key: u64,
    },
    /// Let go of an opened allocation → `Done`.
    ImportGone {
        /// What `Export` gave.
        key: u64,
    },
    /// An administrator changes a card or its instances → `Done`, [`Reply::Instance`], or `Refused` with an `nvmlReturn_t`.
    Administer {
        /// UUID of the card.
        card: String,
        /// What to change.
        change: Change,
    },
    /// Take contexts and memory, all or nothing → [`Reply::Ranges`] or `Refused`.
    Claim {
        /// UUIDs of cards or MIG devices, one per context.
        contexts: Vec<String>,
        /// Memory, in order.
        ranges: Vec<RangeWanted>,
    },
    /// Give back everything that this connection holds → `Done`.
    Release,
    /// Have another process's driver thread do something → [`Reply::Ticket`], later [`Reply::Outcome`].
    Command {
        /// What to do.
        deed: Deed,
    },
    /// A driver thread was woken with this ticket → [`Reply::Job`] or `Refused`.
    Take {
        /// The number that came with the signal.
        ticket: u64,
    },
    /// How the deed ended; passed on to the caller once this connection has ended. No reply.
    Outcome {
        /// A `CUresult`.
        code: i32,
        /// A `CUprocessState`.
        state: u32,
    },
    /// A test changes how the hardware behaves → `Done` or `Refused`.
    Order {
        /// Name of the order.
        key: String,
        /// Its value; `off` takes it back.
        value: String,
    },
    /// Check the books → [`Reply::Books`].
    Books,
}

/// An answer of the hardware.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// It is not done.
    Refused {
        /// A `CUresult`.
        code: i32,
        /// Why, for a person.
        why: String,
    },
    /// The machine.
    Cards {
        /// Driver version.
        driver: String,
        /// CUDA version, as `cuDriverGetVersion` gives it.
        cuda: i32,
        /// The cards, by minor number.
        cards: Vec<CardUse>,
    },
    /// An allocation.
    Range {
        /// Where it lies.
        range: Range,
    },
    /// The ranges of a claim.
    Ranges {
        /// In the order wanted.
        ranges: Vec<Range>,
    },
    /// What to do wrong.
    Fault {
        /// Nothing, mostly.
        action: Option<FaultAction>,
    },
    /// Names an exported allocation.
    Key {
        /// A number nobody guesses.
        key: u64,
    },
    /// An instance that was made.
    Instance {
        /// Its number: a GPU instance's on its card, a compute instance's in its GPU instance.
        id: u32,
    },
    /// What to send with the signal.
    Ticket {
        /// A number nobody guesses.
        ticket: u64,
    },
    /// What to do.
    Job {
        /// The deed.
        deed: Deed,
        /// How.
        orders: CommandOrders,
    },
    /// How it ended.
    Outcome {
        /// A `CUresult`.
        code: i32,
        /// A `CUprocessState`.
        state: u32,
    },
    /// The books.
    Books {
        /// What was found.
        ledger: Ledger,
    },
}
