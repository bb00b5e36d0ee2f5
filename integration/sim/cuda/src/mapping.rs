//! Mapped memory: of a card, or of the process itself.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use baton_sim_wire::PAGE;

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Mapped memory that is unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    address: usize,
    bytes: usize,
}

impl Mapping {
    /// A range of a card's memory.
    pub fn of_card(memory: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<Mapping> {
        Mapping::new(bytes, READ_WRITE, libc::MAP_SHARED, memory.as_raw_fd(), offset)
    }

    /// A page that the hardware shares, to be read.
    pub fn of_page(page: BorrowedFd<'_>) -> io::Result<Mapping> {
        Mapping::new(PAGE, libc::PROT_READ, libc::MAP_SHARED, page.as_raw_fd(), 0)
    }

    /// Ordinary memory of this process, all zero. Large pages where there are any: a copy is mostly page faults.
    pub fn of_host(bytes: u64) -> io::Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = Mapping::new(bytes, READ_WRITE, flags, -1, 0)?;
        mapping.advise(0, mapping.bytes, libc::MADV_HUGEPAGE);
        Ok(mapping)
    }

    /// Advice changes speed only, so a kernel that does not take it does no harm.
    fn advise(&self, offset: usize, length: usize, advice: i32) {
        if let Some(start) = self.at(offset, length) {
            // SAFETY: the range is inside the mapping, and neither kind of advice changes what it holds.
            unsafe { libc::madvise(start.cast(), length, advice) };
        }
    }

    fn new(bytes: u64, protection: i32, flags: i32, descriptor: i32, offset: u64) -> io::Result<Mapping> {
        let bytes = bytes as usize;
        // SAFETY: the kernel chooses the address, so no existing mapping changes.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, descriptor, offset as libc::off_t) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { address: address as usize, bytes })
    }

    /// Has a range of a card's memory lie from `at` on, in place of what is there.
    pub fn put_card(&self, at: u64, bytes: u64, memory: BorrowedFd<'_>, offset: u64) -> io::Result<()> {
        self.put(at, bytes, libc::MAP_SHARED, memory.as_raw_fd(), offset)
    }

    /// Has ordinary memory lie there, all zero.
    pub fn put_nothing(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.put(at, bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0)
    }

    fn put(&self, at: u64, bytes: u64, flags: i32, descriptor: i32, offset: u64) -> io::Result<()> {
        let place = self.at(at as usize, bytes as usize).ok_or(io::ErrorKind::InvalidInput)?.cast();
        let (flags, offset) = (flags | libc::MAP_FIXED, offset as libc::off_t);
        // SAFETY: the range is inside this mapping, which nobody has a reference into, and stays mapped.
        let address = unsafe { libc::mmap(place, bytes as usize, READ_WRITE, flags, descriptor, offset) };
        if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Where the byte at `offset` lies; the `length` bytes from there must be inside.
    pub fn at(&self, offset: usize, length: usize) -> Option<*mut u8> {
        (offset.checked_add(length)? <= self.bytes).then_some((self.address + offset) as *mut u8)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody keeps pointers into it past the driver's lock.
        unsafe { libc::munmap(self.address as *mut libc::c_void, self.bytes) };
    }
}
