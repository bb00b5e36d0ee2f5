//! Waiting for a word of memory to change.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps until the word is woken, no longer than `patience`; returns at once when it is not `seen` any more. May wake
/// for no reason.
pub fn wait(word: &AtomicU32, seen: u32, patience: Option<Duration>) {
    let time = patience.map(|patience| libc::timespec {
        tv_sec: patience.as_secs() as libc::time_t,
        tv_nsec: i64::from(patience.subsec_nanos()),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time live through the call, and the kernel only reads them.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, seen, time) };
}

/// Wakes everybody who waits for the word.
pub fn wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives through the call; the kernel uses its address only.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, i32::MAX) };
}
