//! The end on a signal: the first process of a container gets no default action for them.

/// Ends at once on SIGTERM and SIGINT, with 128 and the signal's number.
pub fn end_on_signals() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let handler = end as extern "C" fn(i32);
        // SAFETY: the handler calls nothing but _exit.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

extern "C" fn end(signal: i32) {
    // SAFETY: _exit may be called from a signal handler.
    unsafe { libc::_exit(128 + signal) };
}
