//! Copies between card and host memory that leave out what was never written, or is zero.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::mapping::Mapping;
use crate::pace::Pace;

/// Copied at once, between two looks at the clock.
const PIECE: usize = 8 << 20;

/// Looked at together for being all zero.
const STRETCH: usize = 256 << 10;

/// Copies what has ever been written; the rest reads as zero on both sides.
pub fn copy_data(memory: BorrowedFd<'_>, start: u64, from: &Mapping, to: &Mapping, pace: &mut Pace) {
    let end = start + from.len() as u64;
    let mut at = start;
    while let Some((data, hole)) = next_extent(memory, at).filter(|(data, _)| *data < end) {
        let (mut done, stop) = ((data - start) as usize, (hole.min(end) - start) as usize);
        while done < stop {
            let piece = PIECE.min(stop - done);
            if let (Some(source), Some(target)) = (from.at(done, piece), to.at(done, piece)) {
                // SAFETY: both mappings have `piece` bytes there, and they are different mappings.
                unsafe { std::ptr::copy_nonoverlapping(source, target, piece) };
            }
            done += piece;
            pace.copied(piece);
        }
        at = hole;
    }
}

fn next_extent(memory: BorrowedFd<'_>, at: u64) -> Option<(u64, u64)> {
    let seek = |from: u64, what: i32| {
        // SAFETY: plain numbers and an open descriptor; nobody relies on the file position.
        u64::try_from(unsafe { libc::lseek(memory.as_raw_fd(), from as i64, what) }).ok()
    };
    let data = seek(at, libc::SEEK_DATA)?;
    Some((data, seek(data, libc::SEEK_HOLE)?))
}

/// Copies stretches that are not all zero: fresh card memory reads as zero.
pub fn copy_pages(from: &Mapping, to: &Mapping, pace: &mut Pace) {
    let mut done = 0;
    while done < from.len() {
        let piece = STRETCH.min(from.len() - done);
        if let (Some(source), Some(target)) = (from.at(done, piece), to.at(done, piece)) {
            // SAFETY: the mapping has whole pages there, so whole words, and nobody writes to it.
            let words = unsafe { std::slice::from_raw_parts(source.cast::<u64>(), piece / 8) };
            if words.iter().any(|word| *word != 0) {
                to.populate(done, piece);
                // SAFETY: both mappings have `piece` bytes there, and they are different mappings.
                unsafe { std::ptr::copy_nonoverlapping(source, target, piece) };
            }
        }
        done += piece;
        pace.copied(piece);
    }
}
