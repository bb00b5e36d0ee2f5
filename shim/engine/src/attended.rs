//! A program that somebody waits for: its terminal, if it has one, is joined to ours, and signals to us go to it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

pub(crate) use crate::console::Arrival;
use crate::{Engine, Exec, exec, kill, process};

/// How much is copied at once, in bytes.
const PIECE: usize = 32 * 1024;

impl Engine {
    /// Runs a program in a container with our standard streams; unless detached, waits and gives its exit status, its
    /// terminal, if it has one, joined to ours.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STATE` when the container does not run, `ENGINE` when the program cannot be started.
    pub fn exec(&self, id: &str, exec: &Exec) -> Result<Option<i32>> {
        let terminal = exec::wants_terminal(exec)?;
        check(terminal, exec.detach, exec.console_socket.as_deref())?;
        if exec.detach {
            return self.launch(id, exec).map(|_| None);
        }
        let arrival = if terminal { Some(Arrival::listen()?) } else { None };
        let mut exec = exec.clone();
        exec.console_socket = arrival.as_ref().map(Arrival::path);
        let pid = self.launch(id, &exec)?;
        let master = arrival.map(Arrival::take).transpose()?;
        Watch::begin()?.wait(pid, master).map(Some)
    }
}

/// Refuses a terminal that nobody would have the other end of, and a console socket that nothing would be sent to.
///
/// # Errors
/// `USAGE`.
pub(crate) fn check(terminal: bool, detach: bool, console_socket: Option<&Path>) -> Result<()> {
    let wrong =
        |why: &str, advice: &str| Err(Fault::new(Code::Usage, "give the program a terminal", why).advise(advice));
    match (terminal && detach, console_socket) {
        (true, None) => wrong("nobody waits who could have its other end", "pass --console-socket, or do not detach"),
        (false, Some(_)) => wrong(
            "a console socket is for a program that has a terminal and is detached from",
            "leave --console-socket out",
        ),
        _ => Ok(()),
    }
}

nix::ioctl_read_bad!(window_size, libc::TIOCGWINSZ, libc::winsize);
nix::ioctl_write_ptr_bad!(set_window_size, libc::TIOCSWINSZ, libc::winsize);

/// Signals to us from here on: blocked, so that none is lost before [`Watch::wait`] hands them on.
pub(crate) struct Watch(SignalFd);

impl Watch {
    /// Begins to watch. Programs started later must not inherit the blocked signals: see [`Watch::unblocked`].
    pub(crate) fn begin() -> Result<Watch> {
        let what = || "watch signals";
        let all = SigSet::all();
        all.thread_block().map_err(std::io::Error::from).attempt(what)?;
        SignalFd::with_flags(&all, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map(Watch)
            .map_err(std::io::Error::from)
            .attempt(what)
    }

    /// Waits for our child `pid` and gives its exit status as a shell would; `terminal` is its master end.
    pub(crate) fn wait(&mut self, pid: i32, terminal: Option<OwnedFd>) -> Result<i32> {
        let end = process::descriptor(pid)?;
        let mut joined = terminal.map(Joined::new);
        if let Some(joined) = &joined {
            joined.take_size();
        }
        loop {
            let (over, signalled, printed, typed) = {
                let mut watched =
                    vec![PollFd::new(end.as_fd(), PollFlags::POLLIN), PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
                if let Some(joined) = &joined {
                    watched.push(PollFd::new(joined.master.as_fd(), PollFlags::POLLIN));
                    if joined.typing {
                        watched.push(PollFd::new(stdin(), PollFlags::POLLIN));
                    }
                }
                match poll(&mut watched, PollTimeout::NONE) {
                    Err(Errno::EINTR) => continue,
                    polled => polled.map_err(std::io::Error::from).attempt(|| "wait for a program")?,
                };
                let woken = |index: usize| watched.get(index).and_then(|fd| fd.any()).unwrap_or(false);
                (woken(0), woken(1), woken(2), woken(3))
            };
            if over {
                if let Some(joined) = &mut joined {
                    joined.drain();
                }
                return process::wait(pid);
            }
            if signalled {
                self.hand_on(pid, joined.as_ref());
            }
            if let Some(joined) = &mut joined {
                if printed && !joined.print() {
                    // Nobody has the other end open any more; what is left is the end of the program.
                    return process::wait(pid);
                }
                if typed {
                    joined.type_in();
                }
            }
        }
    }

    fn hand_on(&mut self, pid: i32, joined: Option<&Joined>) {
        while let Ok(Some(info)) = self.0.read_signal() {
            let Ok(number) = i32::try_from(info.ssi_signo) else { continue };
            match Signal::try_from(number) {
                // Of children of ours, the program among them.
                Ok(Signal::SIGCHLD) => {}
                Ok(Signal::SIGWINCH) if joined.is_some() => joined.into_iter().for_each(Joined::take_size),
                // One that has just ended is what the caller learns next.
                _ => drop(kill::send(pid, number)),
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = SigSet::all().thread_unblock();
    }
}

fn stdin() -> BorrowedFd<'static> {
    // SAFETY: descriptor 0 is open for as long as this process lives: the runtime of Rust opens it where it is closed.
    unsafe { BorrowedFd::borrow_raw(0) }
}

/// Our terminal, or whatever our standard streams are, joined to the master end of the program's.
struct Joined {
    master: File,
    /// What our own terminal was before.
    before: Option<Termios>,
    /// Whether there may be more input.
    typing: bool,
}

impl Joined {
    fn new(master: OwnedFd) -> Joined {
        let before = tcgetattr(stdin()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            cfmakeraw(&mut raw);
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, &raw);
        }
        Joined { master: master.into(), before, typing: true }
    }

    /// Gives the program's terminal the size of ours.
    fn take_size(&self) {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: both descriptors are open and `size` is a winsize that outlives the calls.
        unsafe {
            if window_size(stdin().as_raw_fd(), &raw mut size).is_ok() {
                let _ = set_window_size(self.master.as_raw_fd(), &raw const size);
            }
        }
    }

    /// Copies a piece of output; whether there can be more.
    fn print(&mut self) -> bool {
        let mut piece = [0; PIECE];
        match self.master.read(&mut piece) {
            Ok(0) => false,
            Err(err) => err.kind() == std::io::ErrorKind::Interrupted,
            Ok(length) => {
                let mut out = std::io::stdout().lock();
                // Nobody may be reading; the program goes on all the same.
                let _ = out.write_all(&piece[..length]).and_then(|()| out.flush());
                true
            }
        }
    }

    /// Copies a piece of input.
    fn type_in(&mut self) {
        let mut piece = [0; PIECE];
        match nix::unistd::read(0, &mut piece) {
            Ok(0) | Err(Errno::EIO | Errno::EBADF) => {
                self.typing = false;
                // The end of input, as a terminal has it.
                let _ = self.master.write_all(&[4]);
            }
            Ok(length) => drop(self.master.write_all(&piece[..length])),
            Err(_) => {}
        }
    }

    /// Prints what the program has left behind.
    fn drain(&mut self) {
        loop {
            let mut watched = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
            let more = poll(&mut watched, PollTimeout::ZERO).is_ok_and(|ready| ready > 0);
            if !more || !self.print() {
                return;
            }
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), SetArg::TCSANOW, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_status_is_that_of_a_shell() {
        for (script, wanted) in [("exit 7", 7), ("kill -9 $$", 137), ("exit 0", 0)] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().expect("a program");
            let status = Watch::begin().expect("watch").wait(child.id().cast_signed(), None).expect("wait");
            assert_eq!(status, wanted, "{script}");
            assert!(child.wait().is_err(), "it has been waited for");
        }
    }
}
