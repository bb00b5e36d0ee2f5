//! The server's process. Clients of the simulation use the cards themselves; this stands where the real one would.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// What it is called.
pub const NAME: &str = "nvidia-cuda-mps-server";

/// Starts one for that user. It ends when this process does.
///
/// # Errors
/// When it cannot be started, for instance for a user that the daemon may not become.
pub fn start(uid: u32) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NAME).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != uid {
        command.uid(uid);
    }
    command.spawn()
}

/// Waits until a server that this process has started has ended; false when somebody else has seen to its end. It is left to be
/// reaped.
pub fn wait_for_end(pid: i32) -> bool {
    loop {
        // SAFETY: an all-zero siginfo is valid, and it lives through the call that fills it.
        let answer = unsafe {
            let mut facts: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut facts, libc::WEXITED | libc::WNOWAIT)
        };
        if answer == 0 {
            return true;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
}

/// Is one: waits until the daemon has ended.
pub fn stand() {
    // SAFETY: the name is NUL-terminated; the kernel keeps 15 bytes of it.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"nvidia-cuda-mps-server".as_ptr()) };
    let mut rest = [0u8; 1];
    while matches!(io::stdin().read(&mut rest), Ok(read) if read > 0) {}
}
