//! The terminal of a container that runs in the foreground: its master end comes to us over a socket of our own.

use std::fs;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Longest wait for a terminal once the container exists, in milliseconds.
const PATIENCE_MS: u16 = 10_000;
/// Longest name that comes with a descriptor, in bytes.
const NAME_MAX: usize = 4096;

/// A socket on which one terminal arrives; removed when dropped.
pub(crate) struct Arrival {
    listener: UnixListener,
    folder: PathBuf,
}

impl Arrival {
    /// Listens in a folder that only we can enter.
    pub(crate) fn listen() -> Result<Arrival> {
        use std::os::unix::fs::DirBuilderExt;
        let folder = std::env::temp_dir().join(format!("baton-console-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&folder).attempt(|| format!("make {}", folder.display()))?;
        let path = folder.join("socket");
        match UnixListener::bind(&path) {
            Ok(listener) => Ok(Arrival { listener, folder }),
            Err(err) => {
                let _ = fs::remove_dir(&folder);
                Err(Fault::io(format_args!("listen at {}", path.display()), &err))
            }
        }
    }

    /// Where the terminal is to be sent.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Takes the terminal.
    pub(crate) fn take(self) -> Result<OwnedFd> {
        let none = |why: &dyn std::fmt::Display| Fault::new(Code::Engine, "receive the container's terminal", why);
        let mut wait = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        let ready = poll(&mut wait, PollTimeout::from(PATIENCE_MS)).map_err(|err| none(&err.desc()))?;
        if ready == 0 {
            return Err(none(&"none came"));
        }
        let (stream, _) = self.listener.accept().map_err(|err| none(&err))?;
        receive(&stream).map_err(|err| none(&err))
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        // Best effort: what stays is an empty folder of ours.
        let _ = fs::remove_file(self.path());
        let _ = fs::remove_dir(&self.folder);
    }
}

fn receive(stream: &UnixStream) -> std::io::Result<OwnedFd> {
    let mut name = [0; NAME_MAX];
    let mut parts = [IoSliceMut::new(&mut name)];
    let mut control = nix::cmsg_space!([RawFd; 1]);
    let message = recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC)?;
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = part
            && let Some(fd) = fds.first()
        {
            // SAFETY: the kernel has just put this descriptor into this process; nobody else owns it.
            return Ok(unsafe { OwnedFd::from_raw_fd(*fd) });
        }
    }
    Err(std::io::Error::other("the message carried no descriptor"))
}

/// Sends the master end of a terminal to the console socket at `path`, with a name, as runc does.
pub(crate) fn send(path: &Path, master: &OwnedFd) -> Result<()> {
    let what = || format!("send the container's terminal to {}", path.display());
    let stream = UnixStream::connect(path).attempt(what)?;
    let fds = [master.as_raw_fd()];
    let name = [std::io::IoSlice::new(b"/dev/ptmx")];
    sendmsg::<()>(stream.as_raw_fd(), &name, &[ControlMessage::ScmRights(&fds)], MsgFlags::MSG_NOSIGNAL, None)
        .map_err(std::io::Error::from)
        .attempt(what)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_descriptor_that_is_sent_arrives() {
        let arrival = Arrival::listen().expect("listen");
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        send(&arrival.path(), &OwnedFd::from(theirs)).expect("send");
        let folder = arrival.folder.clone();
        let mut taken = UnixStream::from(arrival.take().expect("take"));
        taken.write_all(b"x").expect("write");
        let mut byte = [0];
        ours.read_exact(&mut byte).expect("read");
        assert_eq!((&byte, folder.exists()), (b"x", false));
        assert!(send(&folder.join("socket"), &OwnedFd::from(ours)).is_err());
    }
}
