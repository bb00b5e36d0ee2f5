//! The terminal of a process: the engine sends its master side over a socket that the shim listens on.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use baton_fault::{Attempt, Code, Fault, Result};
use containerd_shim::asynchronous::io::{IoTasks, Pty};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use tokio::io::{AsyncRead, ReadBuf};

/// Longest wait for the engine to send the terminal.
const PATIENCE: Duration = Duration::from_secs(10);

/// A socket on which the engine hands over one terminal; removed when dropped.
pub struct ConsoleSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ConsoleSocket {
    /// Listens at a new path in `folder`. The path is short whatever the container is called: a socket's address
    /// has 107 bytes.
    ///
    /// # Errors
    /// `SYSTEM` when the socket cannot be made.
    pub fn listen(folder: &Path) -> Result<ConsoleSocket> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        std::fs::create_dir_all(folder).attempt(|| format!("make {}", folder.display()))?;
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = folder.join(format!("tty-{}-{number}", std::process::id()));
        let listener = UnixListener::bind(&path).attempt(|| format!("listen at {}", path.display()))?;
        Ok(ConsoleSocket { listener, path })
    }

    /// Where the engine connects.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the terminal that the engine sent.
    ///
    /// # Errors
    /// `ENGINE` when none came in time.
    pub async fn receive(self) -> Result<Pty> {
        let master = tokio::task::spawn_blocking(move || self.take())
            .await
            .map_err(|err| Fault::new(Code::System, "receive a terminal", err))??;
        Pty::new(File::from(master)).map_err(|err| Fault::new(Code::System, "use a terminal", err))
    }

    fn take(self) -> Result<OwnedFd> {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd;
        let limit = PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::MAX);
        let mut wait = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        let ready = poll(&mut wait, limit).map_err(|err| Fault::new(Code::System, "wait for a terminal", err))?;
        let none = |why: &str| Fault::new(Code::Engine, "receive a terminal from the engine", why);
        if ready == 0 {
            return Err(none("none came"));
        }
        let (stream, _) = self.listener.accept().attempt(|| "accept the engine's connection")?;
        stream.set_read_timeout(Some(PATIENCE)).attempt(|| "bound the wait for a terminal")?;
        let mut name = [0; 4096];
        let mut iov = [IoSliceMut::new(&mut name)];
        let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1]);
        let message = recvmsg::<()>(stream.as_raw_fd(), &mut iov, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)
            .map_err(|err| none(err.desc()))?;
        let descriptors = message.cmsgs().map_err(|err| none(err.desc()))?;
        for control in descriptors {
            if let ControlMessageOwned::ScmRights(fds) = control
                && let Some(fd) = fds.first()
            {
                // SAFETY: the kernel has just made this descriptor for us; nobody else knows of it.
                return Ok(unsafe { OwnedFd::from_raw_fd(*fd) });
            }
        }
        Err(none("the message carried no descriptor"))
    }
}

impl Drop for ConsoleSocket {
    fn drop(&mut self) {
        if let Err(err) = std::fs::remove_file(&self.path) {
            log::warn!("remove {}: {err}", self.path.display());
        }
    }
}

/// Starts to copy what is typed into a terminal.
///
/// # Errors
/// `SYSTEM` when the FIFO cannot be opened.
pub fn copy_input(pty: &Pty, path: &str, io: &IoTasks) -> Result<()> {
    io.copy_from_fifo(path, pty.clone()).map_err(|err| {
        Fault::new(Code::System, format!("attach a terminal to {path}"), err).advise("start the task again")
    })
}

/// What is written to a terminal, up to its end. That the last process let go of it reads as an error, upon which a copy
/// would drop what it has read and not yet written; here it is the end.
pub struct Output(Pty);

impl Output {
    /// The output of that terminal.
    pub fn of(pty: &Pty) -> Output {
        Output(pty.clone())
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match Pin::new(&mut self.0).poll_read(cx, buffer) {
            Poll::Ready(Err(err)) if err.raw_os_error() == Some(libc::EIO) => Poll::Ready(Ok(())),
            other => other,
        }
    }
}

nix::ioctl_write_ptr_bad!(set_window_size, libc::TIOCSWINSZ, libc::winsize);

/// Tells the terminal its size in characters.
///
/// # Errors
/// `SYSTEM` when the terminal refuses.
pub fn resize(pty: &Pty, width: u32, height: u32) -> Result<()> {
    use std::os::fd::AsFd;
    let clamp = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
    let size = libc::winsize { ws_row: clamp(height), ws_col: clamp(width), ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open for the length of the call and `size` is a valid winsize.
    unsafe { set_window_size(pty.as_fd().as_raw_fd(), &size) }
        .map(|_| ())
        .map_err(|err| Fault::new(Code::System, "resize a terminal", err))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn the_end_of_a_terminal_is_an_end_and_no_error() {
        let pty = nix::pty::openpty(None, None).expect("a terminal");
        let mut output = Output::of(&Pty::new(File::from(pty.master)).expect("its master side"));
        let mut process = File::from(pty.slave);
        process.write_all(b"last\n").expect("write");
        drop(process);
        let mut said = String::new();
        output.read_to_string(&mut said).await.expect("read");
        assert_eq!(said, "last\r\n");
    }
}
