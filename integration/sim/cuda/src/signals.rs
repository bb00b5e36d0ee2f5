//! The driver's threads take no signal that is meant for the program.

/// Blocks all signals of the calling thread.
pub fn block_all() {
    // SAFETY: a full set, for this thread only.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}
