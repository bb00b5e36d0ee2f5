//! The loopback interface of a new network namespace, which the kernel makes down.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use baton_fault::{Attempt, Result};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Brings up `lo` in the network namespace of process `pid`.
pub(crate) fn bring_up(pid: i32) -> Result<()> {
    let path = format!("/proc/{pid}/ns/net");
    let theirs = File::open(&path).attempt(|| format!("open {path}"))?;
    let ours = File::open("/proc/self/ns/net").attempt(|| "open /proc/self/ns/net")?;
    let what = || format!("bring up lo of process {pid}");
    let enter = |file: &File| setns(file, CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from);
    enter(&theirs).attempt(what)?;
    let done = set_up();
    enter(&ours).attempt(what)?;
    done.attempt(what)
}

/// Brings up `lo` in our own network namespace.
pub(crate) fn set_up() -> std::io::Result<()> {
    let socket: OwnedFd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: ifreq is plain data, for which all zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    let flags = libc::IFF_UP | libc::IFF_RUNNING;
    request.ifr_ifru.ifru_flags = i16::try_from(flags).map_err(std::io::Error::other)?;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which `request` is and outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// A new network namespace in which only `lo` is there, and up.
pub(crate) fn new_namespace() -> Result<OwnedFd> {
    let what = || "make a network namespace";
    let ours = File::open("/proc/self/ns/net").attempt(what)?;
    nix::sched::unshare(CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from).attempt(what)?;
    let made = set_up().and_then(|()| File::open("/proc/self/ns/net"));
    setns(&ours, CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from).attempt(what)?;
    let file = made.attempt(what)?;

    Ok(file.into())
}
