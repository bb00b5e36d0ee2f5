//! The session keyring of a container, so that its processes do not find the keys of whoever started it.

use std::ffi::CString;

use baton_fault::{Fault, Result};
use nix::errno::Errno;

/// KEYCTL_JOIN_SESSION_KEYRING of linux/keyctl.h.
const JOIN: libc::c_int = 1;

/// Takes the keyring of container `id`, made where it is missing, as our own; what we start has it too.
pub(crate) fn join(id: &str) -> Result<()> {
    let what = || format!("take the session keyring of container {id}");
    let name = CString::new(format!("_ses.{id}")).map_err(|err| Fault::io(what(), &err.into()))?;
    // SAFETY: the call reads the name, which ends with a NUL and outlives it.
    match Errno::result(unsafe { libc::syscall(libc::SYS_keyctl, JOIN, name.as_ptr()) }) {
        // A kernel without keys, and one whose keyrings are forbidden to us, as in a container: there is none to hide.
        Err(Errno::ENOSYS | Errno::EPERM | Errno::EACCES) | Ok(_) => Ok(()),
        Err(err) => Err(Fault::io(what(), &err.into()).advise("pass --no-new-keyring, or raise kernel.keys.maxkeys")),
    }
}
