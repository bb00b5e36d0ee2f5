//! Who has a machine for itself: the process that plays its hardware, or the one that lays it out.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Locks the description of the hardware for as long as it is open; false where another process has it.
pub fn take(description: &File) -> bool {
    // SAFETY: plain numbers and our own descriptor.
    unsafe { libc::flock(description.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}
