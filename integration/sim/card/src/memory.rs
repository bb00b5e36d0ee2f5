//! The memory of one card: a sparse memfd.
//!
//! It lives in the process that plays the hardware: device memory is no memory of the container that uses it, so no
//! container may be charged for it. Ranges are therefore filled with pages here when they are handed out. Offsets are
//! spread over more address space than the card has memory, since a real card has no external fragmentation.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::MetadataExt;

use baton_sim_wire::{Card, Range};

/// How many times the card's memory its address space is.
pub const SPREAD: u64 = 16;

/// Ranges up to this size get their pages at once; larger ones get them on first touch, so that a test can take a
/// whole card without having its memory.
const FILLED_AT_ONCE: u64 = 2 << 30;

/// The memory of one card.
#[derive(Debug)]
pub struct CardMemory {
    file: File,
}

impl CardMemory {
    /// Empty memory for `card`.
    pub fn of(card: &Card) -> io::Result<CardMemory> {
        let name = CString::new(format!("card-{}.mem", card.uuid))?;
        // SAFETY: the name is NUL-terminated; memfd_create returns a new descriptor or -1.
        let raw = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(raw) };
        file.set_len(card.memory * SPREAD)?;
        Ok(CardMemory { file })
    }

    /// What a client maps.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The number that `/proc/PID/maps` shows for mappings of this memory.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.ino())
    }

    /// Gives a fresh range its pages.
    pub fn fill(&self, range: Range) -> io::Result<()> {
        if range.bytes > FILLED_AT_ONCE {
            return Ok(());
        }
        self.allocate(0, range)
    }

    /// Takes the pages of a freed range away.
    pub fn punch(&self, range: Range) -> io::Result<()> {
        self.allocate(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, range)
    }

    fn allocate(&self, mode: i32, range: Range) -> io::Result<()> {
        loop {
            // SAFETY: plain numbers and our own descriptor.
            let answer =
                unsafe { libc::fallocate(self.file.as_raw_fd(), mode, range.offset as i64, range.bytes as i64) };
            if answer == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// The first byte at or after `offset` that holds data.
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        // SAFETY: plain numbers and our own descriptor.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), offset as i64, libc::SEEK_DATA) };
        u64::try_from(found).ok()
    }
}
