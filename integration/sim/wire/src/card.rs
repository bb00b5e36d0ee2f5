//! Cards, and what processes hold of them.

use serde::{Deserialize, Serialize};

use crate::mig::{GpuInstance, InstanceId, Settings};

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
