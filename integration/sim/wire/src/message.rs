//! The messages.

use serde::{Deserialize, Serialize};

use crate::mig::{Change, GpuInstance, InstanceId, Settings};

/// The most cards one machine has.
pub const MOST_CARDS: usize = 16;

/// The most allocations one process holds.
pub const MOST_RANGES: usize = 8192;

/// What a card is. Nothing of it changes while the hardware runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// `GPU-` and a UUID.
    pub uuid: String,
    /// The minor number of its node.
    pub minor: u32,
    /// Product name as NVML and CUDA report it.
    pub model: String,
    /// Compute capability.
    pub capability: (i32, i32),
    /// All memory in bytes, as NVML reports it.
    pub memory: u64,
    /// PCI address: domain, bus, device.
    pub pci: (u32, u32, u32),
    /// PCI device id and subsystem id as NVML reports them.
    pub pci_ids: (u32, u32),
    /// A vGPU, as the guest of a hypervisor sees it.
    #[serde(default)]
    pub guest: bool,
}

impl Card {
    /// The PCI address as `/proc` and CUDA write it: `0000:1b:00.0`.
    pub fn bus_id(&self) -> String {
        format!("{:04x}:{:02x}:{:02x}.0", self.pci.0, self.pci.1, self.pci.2)
    }

    /// The 16 bytes of the UUID.
    pub fn uuid_bytes(&self) -> [u8; 16] {
        let mut bytes = [0u8; 16];
        let digits: Vec<u8> = self.uuid.bytes().skip(4).filter(u8::is_ascii_hexdigit).collect();
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let text = std::str::from_utf8(pair).unwrap_or("00");
            *byte = u8::from_str_radix(text, 16).unwrap_or(0);
        }
        bytes
    }
}

/// Memory that a process wants.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RangeWanted {
    /// UUID of the card (`GPU-…`) or of the MIG device (`MIG-…`).
    pub device: String,
    /// Whole pages.
    pub bytes: u64,
}

/// Where an allocation lies in the card's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Offset in the card's memory.
    pub offset: u64,
    /// Whole pages.
    pub bytes: u64,
}

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

/// A card and what holds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CardUse {
    /// The card.
    pub card: Card,
    /// What administrators have set.
    pub settings: Settings,
    /// Its GPU instances, by number; none unless MIG is on.
    pub instances: Vec<GpuInstance>,
    /// Bytes that contexts and allocations hold.
    pub used: u64,
    /// Bytes still to be had.
    pub free: u64,
    /// Who holds them.
    pub processes: Vec<ProcessUse>,
}

/// What one process holds of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// Its pid as the hardware sees it.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// The MIG device that it uses.
    pub instance: Option<InstanceId>,
    /// The pid of the MPS server that it is a client of.
    pub mps_server: Option<i32>,
}

/// The result of checking the books.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ledger {
    /// Whether everything recorded is held by a living process and nothing else is.
    pub balanced: bool,
    /// What does not fit, one sentence each.
    pub faults: Vec<String>,
    /// The cards.
    pub cards: Vec<CardUse>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_sixteen_bytes() {
        let card = Card {
            uuid: "GPU-00010203-0405-0607-0809-0a0b0c0d0eff".into(),
            minor: 0,
            model: String::new(),
            capability: (9, 0),
            memory: 0,
            pci: (0, 0x1b, 0),
            pci_ids: (0, 0),
            guest: false,
        };
        assert_eq!(card.uuid_bytes(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(card.bus_id(), "0000:1b:00.0");
    }
}
