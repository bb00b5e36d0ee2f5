//! Copies between card and host memory that leave out what was never written, or is zero.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::mapping::Mapping;
use crate::pace::Pace;

/// Read at once, between two looks at the clock.
const PIECE: usize = 8 << 20;

/// Looked at together for being all zero.
const STRETCH: usize = 256 << 10;

/// Reads what has ever been written of a card's memory from `start` on; the rest reads as zero on both sides. Reading spares
/// the page faults that copying from a mapping costs.
///
/// # Errors
/// Those of `pread(2)`.
pub fn read_data(memory: BorrowedFd<'_>, start: u64, to: &Mapping, pace: &mut Pace) -> io::Result<()> {
    let end = start + to.len() as u64;
    let mut at = start;
    while let Some((data, hole)) = next_extent(memory, at).filter(|(data, _)| *data < end) {
        let (mut done, stop) = ((data - start) as usize, (hole.min(end) - start) as usize);
        while done < stop {
            let piece = PIECE.min(stop - done);
            let target = to.at(done, piece).ok_or(io::ErrorKind::InvalidInput)?;
            let offset = start + done as u64;
            // SAFETY: the mapping has `piece` bytes there.
            let got = unsafe { libc::pread(memory.as_raw_fd(), target.cast(), piece, offset as libc::off_t) };
            let got = done_or_again(got)?;
            done += got;
            pace.copied(got);
        }
        at = hole;
    }
    Ok(())
}

/// Bytes that were read or written; 0 when a signal came first.
fn done_or_again(answer: isize) -> io::Result<usize> {
    match usize::try_from(answer) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(bytes) => Ok(bytes),
        Err(_) => {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) }
        }
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

/// Writes stretches that are not all zero to a card's memory from `start` on: fresh card memory reads as zero. Writing takes
/// pages for what is written without making them zero first, as touching them would.
///
/// # Errors
/// Those of `pwrite(2)`.
pub fn write_data(from: &Mapping, memory: BorrowedFd<'_>, start: u64, pace: &mut Pace) -> io::Result<()> {
    let mut done = 0;
    while done < from.len() {
        let piece = STRETCH.min(from.len() - done);
        if let Some(source) = from.at(done, piece) {
            // SAFETY: the mapping has whole pages there, so whole words, and nobody writes to it.
            let words = unsafe { std::slice::from_raw_parts(source.cast::<u64>(), piece / 8) };
            if words.iter().any(|word| *word != 0) {
                // SAFETY: as above.
                let bytes = unsafe { std::slice::from_raw_parts(source, piece) };
                write_all(memory, bytes, start + done as u64)?;
            }
        }
        done += piece;
        pace.copied(piece);
    }
    Ok(())
}

fn write_all(memory: BorrowedFd<'_>, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the bytes live through the call.
        let written =
            unsafe { libc::pwrite(memory.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), at as libc::off_t) };
        let written = done_or_again(written)?;
        bytes = &bytes[written..];
        at += written as u64;
    }
    Ok(())
}
