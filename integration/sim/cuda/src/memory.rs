//! Device memory: the table from device pointers to what lies behind them now.

use std::collections::BTreeMap;

use crate::codes::{Code, Outcome};
use crate::mapping::Mapping;

/// The first device pointer. Pointers are never used twice.
const FIRST: u64 = 0x3_0200_0000;

/// Device pointers lie on this boundary.
const BOUNDARY: u64 = 2 << 20;

/// Where the bytes of an allocation are.
#[derive(Debug)]
pub enum Place {
    /// On the card of the allocation's slot.
    Card {
        /// Offset in the card's memory.
        offset: u64,
        /// The mapped range.
        mapping: Mapping,
    },
    /// In this process, after a checkpoint.
    Host(Mapping),
}

/// One allocation.
#[derive(Debug)]
pub struct Block {
    /// Which of the process's cards.
    pub slot: usize,
    /// Bytes, whole pages.
    pub bytes: u64,
    /// Where they are.
    pub place: Place,
}

/// All allocations of the process.
#[derive(Debug, Default)]
pub struct Memory {
    /// By device pointer.
    pub blocks: BTreeMap<u64, Block>,
    spent: u64,
}

impl Memory {
    /// Enters an allocation and gives it a pointer.
    pub fn enter(&mut self, block: Block) -> u64 {
        let pointer = FIRST + self.spent;
        self.spent += block.bytes.next_multiple_of(BOUNDARY);
        self.blocks.insert(pointer, block);
        pointer
    }

    /// Where `length` bytes at a device pointer lie.
    pub fn find(&self, pointer: u64, length: usize) -> Outcome<*mut u8> {
        let (start, block) = self.blocks.range(..=pointer).next_back().ok_or(Code::INVALID_VALUE)?;
        let Place::Card { mapping, .. } = &block.place else { return Err(Code::ILLEGAL_STATE) };
        usize::try_from(pointer - start).ok().and_then(|at| mapping.at(at, length)).ok_or(Code::INVALID_VALUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_found_within_their_allocation_only() {
        let mut memory = Memory::default();
        let mut block = |bytes| {
            let mapping = Mapping::of_host(bytes).expect("memory");
            memory.enter(Block { slot: 0, bytes, place: Place::Card { offset: 0, mapping } })
        };
        let (first, second) = (block(4096), block(8192));
        assert_eq!((first, second), (0x3_0200_0000, 0x3_0220_0000));
        assert!(memory.find(first, 4096).is_ok());
        assert!(memory.find(first + 4095, 1).is_ok());
        assert_eq!(memory.find(first + 4095, 2), Err(Code::INVALID_VALUE));
        assert_eq!(memory.find(first - 1, 1), Err(Code::INVALID_VALUE));
        assert_eq!(memory.find(second + 8192, 1), Err(Code::INVALID_VALUE));
        assert_eq!(memory.find(second, usize::MAX), Err(Code::INVALID_VALUE));
    }
}
