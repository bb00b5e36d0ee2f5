//! The table from device pointers to what lies behind them now, and host memory that devices reach.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codes::{Code, Outcome};
use crate::ipc::Opened;
use crate::mapping::Mapping;
use crate::physical::Physical;
use crate::reservation::{RESERVABLE, Reservations};
use crate::span::Span;
use crate::table::{Handle, Table};

/// The first device pointer. Pointers are never used twice.
const FIRST: u64 = 0x3_0200_0000;

/// Device pointers lie below this. What is above is host memory.
const END: u64 = RESERVABLE.end;

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
        mapping: Arc<Mapping>,
    },
    /// In this process, after a checkpoint.
    Host(Arc<Mapping>),
    /// In the process that it was opened from, after a checkpoint.
    Away,
}

/// One allocation.
#[derive(Debug)]
pub struct Block {
    /// The context that it belongs to; memory by a handle belongs to none.
    pub context: Option<Handle>,
    /// Which of the process's devices.
    pub slot: usize,
    /// Bytes that were asked for.
    pub asked: usize,
    /// Bytes, whole pages.
    pub bytes: u64,
    /// Where they are.
    pub place: Place,
    /// What other processes open it by.
    pub exported: Option<u64>,
    /// Whose memory it is, if another process's.
    pub opened: Option<Opened>,
    /// The pool that it came from.
    pub pool: Option<Handle>,
    /// Number that no other allocation of the process has.
    pub id: u64,
}

/// How host memory came to be reached by devices.
#[derive(Debug)]
pub enum Pinning {
    /// `cuMemHostAlloc`.
    Allocated(#[expect(dead_code, reason = "kept mapped")] Mapping),
    /// `cuMemHostRegister`.
    Registered,
    /// `cuMemAllocManaged`.
    Managed(#[expect(dead_code, reason = "kept mapped")] Mapping),
}

/// Host memory that devices reach at the same address.
#[derive(Debug)]
pub struct Pinned {
    /// The context that it belongs to.
    pub context: Handle,
    /// How many bytes.
    pub bytes: usize,
    /// As given.
    pub flags: u32,
    /// How.
    pub pinning: Pinning,
    /// Number that no other allocation of the process has.
    pub id: u64,
}

/// All memory of the process that devices reach.
#[derive(Debug)]
pub struct Memory {
    /// By device pointer; memory by a handle by a number that is none.
    pub blocks: BTreeMap<u64, Block>,
    /// By address.
    pub pinned: BTreeMap<u64, Pinned>,
    /// What each handle stands for.
    pub physical: Table<Physical>,
    /// Where a program maps memory by handles.
    pub reservations: Reservations,
    spent: u64,
    numbered: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            blocks: BTreeMap::new(),
            pinned: BTreeMap::new(),
            physical: Table::of_kind(9),
            reservations: Reservations::default(),
            spent: 0,
            numbered: 0,
        }
    }
}

impl Memory {
    /// A number for the next allocation.
    pub fn next_id(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    /// Enters an allocation and gives it a pointer.
    pub fn enter(&mut self, block: Block) -> u64 {
        let pointer = FIRST + self.spent;
        self.spent += block.bytes.next_multiple_of(BOUNDARY);
        self.blocks.insert(pointer, block);
        pointer
    }

    /// Enters memory that no device pointer leads to; where comes back.
    pub fn enter_apart(&mut self, block: Block) -> u64 {
        let place = END + block.id;
        self.blocks.insert(place, block);
        place
    }

    /// The allocation that holds a device pointer, and its first.
    pub fn block(&self, pointer: u64) -> Option<(u64, &Block)> {
        if pointer >= END {
            return None;
        }
        let (start, block) = self.blocks.range(..=pointer).next_back()?;
        (pointer - start < block.bytes).then_some((*start, block))
    }

    /// The host memory that holds an address, and its first.
    pub fn host(&self, address: u64) -> Option<(u64, &Pinned)> {
        let (start, pinned) = self.pinned.range(..=address).next_back()?;
        (address - start < pinned.bytes as u64).then_some((*start, pinned))
    }

    /// Whether a range of host memory overlaps one that is there.
    pub fn overlaps(&self, address: u64, bytes: usize) -> bool {
        let before = self.pinned.range(..address.saturating_add(bytes as u64)).next_back();
        before.is_some_and(|(start, pinned)| start + pinned.bytes as u64 > address)
    }

    /// The `length` bytes that devices reach at a pointer.
    pub fn span(&self, pointer: u64, length: usize) -> Outcome<Span> {
        if length == 0 {
            return Ok(Span::empty());
        }
        if let Some((start, block)) = self.block(pointer) {
            let Place::Card { mapping, .. } = &block.place else { return Err(Code::ILLEGAL_STATE) };
            let at = usize::try_from(pointer - start).ok();
            return at.and_then(|at| Span::of_card(mapping, at, length)).ok_or(Code::INVALID_VALUE);
        }
        if RESERVABLE.contains(&pointer) {
            return self.reservations.span(pointer, length);
        }
        let (start, pinned) = self.host(pointer).ok_or(Code::INVALID_VALUE)?;
        if length as u64 > pinned.bytes as u64 - (pointer - start) {
            return Err(Code::INVALID_VALUE);
        }
        Ok(Span::of_host(pointer as usize, length))
    }

    /// The `length` bytes at a pointer of any kind: ordinary host memory is the program's to answer for.
    pub fn any_span(&self, pointer: u64, length: usize) -> Outcome<Span> {
        let ordinary = pointer != 0 && !(FIRST..END).contains(&pointer) && self.host(pointer).is_none();
        if ordinary { Ok(Span::of_host(pointer as usize, length)) } else { self.span(pointer, length) }
    }

    /// Whether devices reach all of it, so that a copy can go on while the program does.
    pub fn is_reached(&self, pointer: u64, length: usize) -> bool {
        self.span(pointer, length).is_ok()
    }

    /// Takes out the allocations of a context.
    pub fn forget_blocks(&mut self, context: Handle) -> Vec<Block> {
        let of_context = |(pointer, block): (&u64, &Block)| (block.context == Some(context)).then_some(*pointer);
        let gone: Vec<u64> = self.blocks.iter().filter_map(of_context).collect();
        gone.iter().filter_map(|pointer| self.blocks.remove(pointer)).collect()
    }

    /// Lets go of a context's host memory.
    pub fn forget_host(&mut self, context: Handle) {
        self.pinned.retain(|_, pinned| pinned.context != context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: u64) -> Block {
        let place = Place::Card { offset: 0, mapping: Arc::new(Mapping::of_host(bytes).expect("memory")) };
        let asked = bytes as usize;
        Block { context: Some(1), slot: 0, asked, bytes, place, exported: None, opened: None, pool: None, id: 1 }
    }

    fn host(bytes: usize) -> Pinned {
        Pinned { context: 1, bytes, flags: 0, pinning: Pinning::Registered, id: 2 }
    }

    #[test]
    fn pointers_are_found_within_their_allocation_only() {
        let mut memory = Memory::default();
        let (first, second) = (memory.enter(block(4096)), memory.enter(block(8192)));
        assert_eq!((first, second), (0x3_0200_0000, 0x3_0220_0000));
        assert!(memory.is_reached(first, 4096));
        assert!(memory.is_reached(first + 4095, 1));
        for (pointer, length) in [(first + 4095, 2), (first - 1, 1), (second + 8192, 1), (second, usize::MAX)] {
            assert_eq!(memory.span(pointer, length).map(drop), Err(Code::INVALID_VALUE), "{pointer:#x}, {length}");
        }
    }

    #[test]
    fn no_pointer_leads_to_memory_that_is_entered_apart() {
        let mut memory = Memory::default();
        let place = memory.enter_apart(block(4096));
        assert_eq!(memory.blocks.len(), 1);
        assert!(memory.block(place).is_none() && !memory.is_reached(place, 1));
        assert_eq!(memory.forget_blocks(1).len(), 1);
    }

    #[test]
    fn host_memory_is_reached_where_it_was_pinned() {
        let mut memory = Memory::default();
        let address = 0x7f00_0000_0000;
        memory.pinned.insert(address, host(100));
        assert!(memory.is_reached(address + 50, 50));
        assert!(!memory.is_reached(address + 50, 51));
        assert!(memory.any_span(address + 50, 51).is_err(), "beyond what was pinned");
        assert!(memory.any_span(address + 200, 51).is_ok(), "ordinary memory");
        assert!(memory.any_span(0, 1).is_err());
        assert!(memory.any_span(FIRST, 1).is_err(), "a device pointer that is none");
        let overlap = [(address - 10, 10), (address - 10, 11), (address + 99, 5), (address + 100, 5)];
        assert_eq!(overlap.map(|(start, length)| memory.overlaps(start, length)), [false, true, true, false]);
    }

    #[test]
    fn what_a_context_holds_goes_with_it() {
        let mut memory = Memory::default();
        let pointer = memory.enter(block(4096));
        let other = memory.enter(Block { context: Some(2), ..block(4096) });
        memory.pinned.insert(0x7f00_0000_0000, host(10));
        assert_eq!(memory.forget_blocks(1).len(), 1);
        memory.forget_host(1);
        assert!(!memory.is_reached(pointer, 1) && memory.is_reached(other, 1) && memory.pinned.is_empty());
    }
}
