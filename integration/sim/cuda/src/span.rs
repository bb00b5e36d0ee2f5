//! A piece of memory that stays mapped while work is done on it.

use std::sync::Arc;

use crate::mapping::Mapping;

/// Bytes of a card, or of the process.
#[derive(Debug, Clone)]
pub struct Span {
    address: usize,
    length: usize,
    /// Keeps a card's bytes mapped.
    _mapping: Option<Arc<Mapping>>,
}

impl Span {
    /// No bytes.
    pub fn empty() -> Span {
        Span { address: 0, length: 0, _mapping: None }
    }

    /// `length` bytes of a card from `at` on, if they are there.
    pub fn of_card(mapping: &Arc<Mapping>, at: usize, length: usize) -> Option<Span> {
        let address = mapping.at(at, length)? as usize;
        Some(Span { address, length, _mapping: Some(Arc::clone(mapping)) })
    }

    /// `length` bytes of the program's, which it keeps for as long as the work lasts.
    pub fn of_host(address: usize, length: usize) -> Span {
        Span { address, length, _mapping: None }
    }

    /// Where they begin.
    pub fn start(&self) -> *mut u8 {
        self.address as *mut u8
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Fills this with the bytes of another span, as many as both have. They may overlap.
    pub fn copy_from(&self, from: &Span) {
        let length = self.length.min(from.length);
        if length > 0 {
            // SAFETY: both spans have that many bytes: a card's stay mapped with the span, host memory is the program's
            // promise. Who else works on them at the same time is the program's affair, as on a real card.
            unsafe { std::ptr::copy(from.start(), self.start(), length) };
        }
    }

    /// Repeats a pattern of 1, 2 or 4 bytes to the end.
    pub fn fill(&self, pattern: &[u8]) {
        if pattern.iter().all(|byte| *byte == pattern[0]) {
            // SAFETY: the span has that many bytes, as for `copy_from`.
            unsafe { self.start().write_bytes(pattern[0], self.length) };
            return;
        }
        for (index, byte) in pattern.iter().cycle().take(pattern.len().min(self.length)).enumerate() {
            // SAFETY: the index is inside the span.
            unsafe { self.start().add(index).write(*byte) };
        }
        // What is filled is copied behind itself until all is.
        let mut filled = pattern.len().min(self.length);
        while filled < self.length {
            let piece = filled.min(self.length - filled);
            // SAFETY: `filled` bytes lie before the place, at least `piece` bytes behind it.
            unsafe { std::ptr::copy_nonoverlapping(self.start(), self.start().add(filled), piece) };
            filled += piece;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_repeated_to_the_end() {
        let mut bytes = [9u8; 15];
        let span = Span::of_host(bytes.as_mut_ptr() as usize, 14);
        span.fill(&[1, 2]);
        assert_eq!(bytes, [1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 9]);
        Span::of_host(bytes.as_mut_ptr() as usize, 12).fill(&[1, 2, 3, 4]);
        assert_eq!(bytes, [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 9]);
        span.fill(&[7, 7]);
        assert_eq!(bytes[..14], [7; 14]);
    }

    #[test]
    fn a_span_of_a_card_keeps_it_mapped() {
        let mapping = Arc::new(Mapping::of_host(4096).expect("memory"));
        let span = Span::of_card(&mapping, 4000, 96).expect("inside");
        assert!(Span::of_card(&mapping, 4000, 97).is_none());
        drop(mapping);
        span.fill(&[5]);
        let mut copy = [0u8; 96];
        Span::of_host(copy.as_mut_ptr() as usize, 96).copy_from(&span);
        assert_eq!(copy, [5; 96]);
    }
}
