//! Address ranges that a program reserves, and what it has mapped there: `cuMemAddressReserve`, `cuMemMap`.
//!
//! A reservation has a window: as many addresses of this process. A card's bytes lie in it where they are mapped, one
//! mapping behind the other, so that work goes across from one into the next. Where nothing is mapped lies ordinary memory that
//! nobody asks for, so the addresses stay good for whoever still works on a window.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::codes::{Code, Outcome};
use crate::mapping::Mapping;
use crate::span::Span;
use crate::table::Handle;

/// Ranges are reserved between these device pointers.
pub const RESERVABLE: Range<u64> = 1 << 44..1 << 46;

/// Memory by handles is made and mapped in multiples of this: what `cuMemGetAllocationGranularity` gives on all these models.
pub const GRANULARITY: u64 = 2 << 20;

#[derive(Debug)]
struct Reservation {
    bytes: u64,
    window: Arc<Mapping>,
}

/// One mapping.
#[derive(Debug)]
pub struct Mapped {
    /// How many bytes, from the first of the memory on.
    pub bytes: u64,
    /// Of which memory.
    pub memory: Handle,
    /// Number that no other allocation of the process has.
    pub id: u64,
    /// `CUmemAccess_flags` by slot.
    access: BTreeMap<usize, u32>,
}

impl Mapped {
    /// A mapping that no device has access to yet.
    pub fn of(memory: Handle, bytes: u64, id: u64) -> Mapped {
        Mapped { bytes, memory, id, access: BTreeMap::new() }
    }

    /// What a device may do there.
    pub fn access(&self, slot: usize) -> u32 {
        self.access.get(&slot).copied().unwrap_or(0)
    }
}

/// All reservations of the process.
#[derive(Debug, Default)]
pub struct Reservations {
    reserved: BTreeMap<u64, Reservation>,
    /// By device pointer; each lies in one reservation.
    mapped: BTreeMap<u64, Mapped>,
}

impl Reservations {
    /// Reserves addresses; `alignment` is a power of two.
    pub fn reserve(&mut self, bytes: u64, alignment: u64) -> Outcome<u64> {
        let start = self.gap(bytes, alignment.max(GRANULARITY)).ok_or(Code::OUT_OF_MEMORY)?;
        let window = Mapping::of_host(bytes).map_err(|_| Code::OUT_OF_MEMORY)?;
        self.reserved.insert(start, Reservation { bytes, window: Arc::new(window) });
        Ok(start)
    }

    /// The first gap of that size.
    fn gap(&self, bytes: u64, alignment: u64) -> Option<u64> {
        let mut start = RESERVABLE.start.checked_next_multiple_of(alignment)?;
        for (other, reservation) in &self.reserved {
            if other.saturating_sub(start) >= bytes {
                return Some(start);
            }
            start = start.max((other + reservation.bytes).checked_next_multiple_of(alignment)?);
        }
        (start.checked_add(bytes)? <= RESERVABLE.end).then_some(start)
    }

    /// Gives back a whole reservation in which nothing is mapped any more.
    pub fn free(&mut self, start: u64, bytes: u64) -> Outcome {
        let is_it = self.reserved.get(&start).is_some_and(|reservation| reservation.bytes == bytes);
        if !is_it || self.mapped.range(start..start + bytes).next().is_some() {
            return Err(Code::INVALID_VALUE);
        }
        self.reserved.remove(&start);
        Ok(())
    }

    fn reservation(&self, pointer: u64) -> Option<(u64, &Reservation)> {
        let (start, reservation) = self.reserved.range(..=pointer).next_back()?;
        (pointer - start < reservation.bytes).then_some((*start, reservation))
    }

    /// The reservation that holds a device pointer: its first and its bytes.
    pub fn range(&self, pointer: u64) -> Option<(u64, u64)> {
        self.reservation(pointer).map(|(start, reservation)| (start, reservation.bytes))
    }

    /// The mapping that holds a device pointer, and its first.
    pub fn mapping(&self, pointer: u64) -> Option<(u64, &Mapped)> {
        let (start, mapped) = self.mapped.range(..=pointer).next_back()?;
        (pointer - start < mapped.bytes).then_some((*start, mapped))
    }

    /// Maps a card's memory from `offset` on.
    pub fn map(&mut self, pointer: u64, mapped: Mapped, card: BorrowedFd<'_>, offset: u64) -> Outcome {
        let (start, reservation) = self.reservation(pointer).ok_or(Code::INVALID_VALUE)?;
        let at = pointer - start;
        if mapped.bytes > reservation.bytes - at {
            return Err(Code::INVALID_VALUE);
        }
        let before = self.mapped.range(..pointer + mapped.bytes).next_back();
        if before.is_some_and(|(other, held)| other + held.bytes > pointer) {
            return Err(Code::INVALID_VALUE);
        }
        reservation.window.put_card(at, mapped.bytes, card, offset).map_err(|_| Code::OUT_OF_MEMORY)?;
        self.mapped.insert(pointer, mapped);
        Ok(())
    }

    /// Where the mappings begin that together are just that range.
    pub fn whole(&self, pointer: u64, bytes: u64) -> Outcome<Vec<u64>> {
        let end = pointer.checked_add(bytes).filter(|_| bytes > 0).ok_or(Code::INVALID_VALUE)?;
        let (mut at, mut starts) = (pointer, Vec::new());
        while at < end {
            starts.push(at);
            at += self.mapped.get(&at).ok_or(Code::INVALID_VALUE)?.bytes;
        }
        if at == end { Ok(starts) } else { Err(Code::INVALID_VALUE) }
    }

    /// Takes a mapping away.
    pub fn unmap(&mut self, start: u64) -> Outcome<Mapped> {
        let bytes = self.mapped.get(&start).ok_or(Code::INVALID_VALUE)?.bytes;
        self.empty(start, bytes).map_err(|_| Code::OPERATING_SYSTEM)?;
        self.mapped.remove(&start).ok_or(Code::INVALID_VALUE)
    }

    fn empty(&self, pointer: u64, bytes: u64) -> io::Result<()> {
        let (start, reservation) = self.reservation(pointer).ok_or(io::ErrorKind::InvalidInput)?;
        reservation.window.put_nothing(pointer - start, bytes)
    }

    /// Says what a device may do with a mapping.
    pub fn grant(&mut self, start: u64, slot: usize, flags: u32) {
        if let Some(mapped) = self.mapped.get_mut(&start) {
            mapped.access.insert(slot, flags);
        }
    }

    /// The `length` bytes at a pointer: all mapped, and some device has access. Which one works there is not asked.
    pub fn span(&self, pointer: u64, length: usize) -> Outcome<Span> {
        let (start, reservation) = self.reservation(pointer).ok_or(Code::INVALID_VALUE)?;
        let end = pointer.checked_add(length as u64).ok_or(Code::INVALID_VALUE)?;
        let mut at = self.mapping(pointer).ok_or(Code::INVALID_VALUE)?.0;
        while at < end {
            let reached = |mapped: &&Mapped| mapped.access.values().any(|flags| *flags > 0);
            at += self.mapped.get(&at).filter(reached).ok_or(Code::INVALID_VALUE)?.bytes;
        }
        Span::of_card(&reservation.window, (pointer - start) as usize, length).ok_or(Code::INVALID_VALUE)
    }

    /// Takes the cards' memory out of all windows; what is mapped where is kept.
    pub fn leave_cards(&self) -> io::Result<()> {
        self.mapped.iter().try_for_each(|(pointer, mapped)| self.empty(*pointer, mapped.bytes))
    }

    /// Puts memory into the windows again; `place` says on which card it is now, and where.
    pub fn return_to_cards<'c>(&self, place: impl Fn(Handle) -> Outcome<(BorrowedFd<'c>, u64)>) -> Outcome {
        for (pointer, mapped) in &self.mapped {
            let (card, offset) = place(mapped.memory)?;
            let (start, reservation) = self.reservation(*pointer).ok_or(Code::UNKNOWN)?;
            let put = reservation.window.put_card(pointer - start, mapped.bytes, card, offset);
            put.map_err(|_| Code::OPERATING_SYSTEM)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::{AsFd, FromRawFd};

    const G: u64 = GRANULARITY;
    const BASE: u64 = 1 << 44;

    /// A card with four pieces of memory: the bytes of each are its number.
    fn card() -> File {
        // SAFETY: the name is NUL-terminated; the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"card".as_ptr(), libc::MFD_CLOEXEC)) };
        file.set_len(4 * G).expect("memory");
        for piece in 0..4 {
            std::os::unix::fs::FileExt::write_all_at(&file, &[piece as u8; 8], piece * G + G - 8).expect("memory");
        }
        file
    }

    fn mapped(pieces: u64) -> Mapped {
        Mapped::of(1, pieces * G, 1)
    }

    #[test]
    fn ranges_are_apart_aligned_and_used_again() {
        let mut reservations = Reservations::default();
        let first = reservations.reserve(3 * G, 0).expect("room");
        let aligned = reservations.reserve(4096, 1 << 30).expect("room");
        let between = reservations.reserve(G, 0).expect("room");
        assert_eq!([first, aligned, between], [BASE, BASE + (1 << 30), BASE + 3 * G]);
        assert_eq!(reservations.range(aligned + 4095), Some((aligned, 4096)));
        assert_eq!(reservations.range(aligned + 4096), None);
        assert_eq!(reservations.free(first, G), Err(Code::INVALID_VALUE), "it is larger");
        assert_eq!(reservations.free(first + G, 2 * G), Err(Code::INVALID_VALUE), "it begins elsewhere");
        assert_eq!(reservations.free(first, 3 * G), Ok(()));
        assert_eq!(reservations.reserve(3 * G, 0), Ok(first));
        assert_eq!(reservations.reserve(1 << 46, 0), Err(Code::OUT_OF_MEMORY));
    }

    #[test]
    fn mappings_lie_in_one_reservation_and_never_overlap() {
        let (card, mut reservations) = (card(), Reservations::default());
        let start = reservations.reserve(4 * G, 0).expect("room");
        let mut map = |at: u64, pieces| reservations.map(start + at * G, mapped(pieces), card.as_fd(), 0);
        assert_eq!(map(1, 2), Ok(()));
        for (at, pieces) in [(0, 2), (0, 4), (1, 2), (2, 1), (2, 2), (3, 2), (4, 1)] {
            assert_eq!(map(at, pieces), Err(Code::INVALID_VALUE), "{pieces} at {at}");
        }
        assert_eq!([map(0, 1), map(3, 1)], [Ok(()), Ok(())]);
        assert_eq!(reservations.whole(start, 3 * G), Ok(vec![start, start + G]));
        for (at, pieces) in [(0, 2), (2, 1), (1, 1), (0, 5), (0, 0)] {
            assert_eq!(reservations.whole(start + at * G, pieces * G), Err(Code::INVALID_VALUE), "{pieces} at {at}");
        }
        assert_eq!(reservations.free(start, 4 * G), Err(Code::INVALID_VALUE), "something is mapped");
    }

    #[test]
    fn what_is_reached_goes_across_mappings_with_access() {
        let (card, mut reservations) = (card(), Reservations::default());
        let start = reservations.reserve(4 * G, 0).expect("room");
        // In another order than on the card.
        for (at, piece) in [(0, 2), (1, 1), (2, 3)] {
            reservations.map(start + at * G, mapped(1), card.as_fd(), piece * G).expect("room");
        }
        let border = start + G - 8;
        assert_eq!(reservations.span(border, 16).map(drop), Err(Code::INVALID_VALUE), "nobody has access");
        reservations.grant(start, 0, 3);
        reservations.grant(start + G, 0, 3);
        let end_of = |reservations: &Reservations, at: u64| {
            let span = reservations.span(start + at * G + G - 8, 8).expect("access");
            let mut bytes = [9u8; 8];
            Span::of_host(bytes.as_mut_ptr() as usize, 8).copy_from(&span);
            bytes
        };
        assert_eq!([end_of(&reservations, 0), end_of(&reservations, 1)], [[2; 8], [1; 8]]);
        assert!(reservations.span(border, 16).is_ok());
        assert!(reservations.span(start + 2 * G - 8, 16).is_err(), "the third has no access");
        reservations.leave_cards().expect("memory");
        assert_eq!(end_of(&reservations, 0), [0; 8]);
        reservations.return_to_cards(|_| Ok((card.as_fd(), G))).expect("memory");
        assert_eq!(end_of(&reservations, 0), [1; 8]);
        let kept = reservations.span(start, G as usize).expect("access");
        reservations.unmap(start).expect("mapped");
        assert!(reservations.span(start, 1).is_err());
        let mut byte = 9u8;
        Span::of_host((&raw mut byte) as usize, 1).copy_from(&kept);
        assert_eq!(byte, 0, "who still works there does no harm");
    }
}
