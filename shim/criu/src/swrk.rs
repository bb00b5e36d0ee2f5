//! One `criu swrk` process and the conversation with it.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_fault::{Attempt, Code, Fault, Result};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, Shutdown, SockFlag, SockType, recvmsg, sendmsg, shutdown, socketpair,
};
use protobuf::Message;
use rust_criu::rust_criu_protobuf::rpc;

/// Largest message that CRIU sends: an answer with its first error lines, far below this.
const MESSAGE_MAX: usize = 64 * 1024;

/// Longest conversation: hundreds of GiB go to a slow disk in that time. Whoever gives an engine an hour gets the
/// reason, and nothing half-made.
const CONVERSATION_MAX: Duration = Duration::from_secs(50 * 60);

/// The point after which CRIU undoes nothing: told of a failure there, it waits for ever for tasks that the caller
/// has killed. So it is ended.
const PAST_UNDOING: &str = "pre-resume";

/// What the caller does at the points where CRIU stops and asks. An error makes CRIU give up and undo, except at
/// [`Steps::before_resume`], where CRIU no longer can: the caller kills the tree itself there.
pub trait Steps {
    /// CRIU's worker runs and has done nothing yet: the moment to move it into a cgroup.
    fn worker_started(&mut self, _worker: i32) -> Result<()> {
        Ok(())
    }
    /// The namespaces of the first process `pid` exist.
    fn namespaces_ready(&mut self, _pid: i32) -> Result<()> {
        Ok(())
    }
    /// All processes are rebuilt, none runs; they have CRIU's credentials still.
    fn restored(&mut self, _pid: i32) -> Result<()> {
        Ok(())
    }
    /// The processes have their own credentials and filters, and are stopped; the next thing is that they run.
    fn before_resume(&mut self) -> Result<()> {
        Ok(())
    }
    /// The master end of the container's terminal.
    fn terminal(&mut self, _master: OwnedFd) -> Result<()> {
        Ok(())
    }
}

/// Nothing to do at any point.
impl Steps for () {}

/// A running `criu swrk`.
pub(crate) struct Worker {
    child: Child,
    socket: OwnedFd,
    until: Instant,
}

impl Worker {
    /// Starts `criu swrk`, which inherits the descriptors `inherited` under the numbers they have here, and our
    /// standard streams when `with_stdio`. It runs in the cgroup namespace that is given, or in ours.
    pub(crate) fn spawn(
        criu: &Path,
        inherited: &[BorrowedFd<'_>],
        with_stdio: bool,
        cgroup_namespace: Option<BorrowedFd<'_>>,
    ) -> Result<Worker> {
        let what = || format!("start {} swrk", criu.display());
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
            .map_err(std::io::Error::from)
            .attempt(what)?;
        for fd in inherited.iter().copied().chain([theirs.as_fd()]) {
            fcntl(fd.as_raw_fd(), FcntlArg::F_SETFD(FdFlag::empty())).map_err(std::io::Error::from).attempt(what)?;
        }
        let mut command = Command::new(criu);
        command.arg("swrk").arg(theirs.as_raw_fd().to_string()).current_dir("/");
        // CRIU reads a configuration file from $HOME and runs tar and ip from PATH, and nothing else of it.
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        if !with_stdio {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        }
        if let Some(namespace) = cgroup_namespace.map(|namespace| namespace.as_raw_fd()) {
            // SAFETY: between fork and exec the child makes one system call, on a descriptor that is open until then.
            unsafe {
                command.pre_exec(move || match libc::setns(namespace, libc::CLONE_NEWCGROUP) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                });
            }
        }
        let child = command.spawn().attempt(what)?;
        Ok(Worker { child, socket: ours, until: Instant::now() + CONVERSATION_MAX })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Sends a request and serves CRIU's questions until its answer comes. The answer may be one of failure.
    pub(crate) fn converse(&mut self, request: &rpc::Criu_req, steps: &mut dyn Steps) -> Result<rpc::Criu_resp> {
        self.send(request)?;
        loop {
            let (answer, fds) = self.receive()?;
            if answer.type_() != rpc::Criu_req_type::NOTIFY {
                return Ok(answer);
            }
            let served = serve(&answer.notify, fds, steps);
            if served.is_err() && answer.notify.script() == PAST_UNDOING {
                return served.map(|()| answer);
            }
            let mut reply = rpc::Criu_req::new();
            reply.set_type(rpc::Criu_req_type::NOTIFY);
            reply.set_notify_success(served.is_ok());
            let sent = self.send(&reply);
            if let Err(fault) = served {
                self.let_undo(&reply);
                return Err(fault);
            }
            sent?;
        }
    }

    /// Waits until CRIU has undone what it did; only then may the caller clean up.
    fn let_undo(&self, refusal: &rpc::Criu_req) {
        while let Ok((answer, _)) = self.receive() {
            if answer.type_() != rpc::Criu_req_type::NOTIFY || self.send(refusal).is_err() {
                return;
            }
        }
    }

    /// Waits for the worker to end.
    pub(crate) fn finish(&mut self) -> Result<()> {
        // Without a reader it has nothing more to wait for.
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Write);
        self.child.wait().attempt(|| "wait for criu swrk")?;
        Ok(())
    }

    fn send(&self, request: &rpc::Criu_req) -> Result<()> {
        let bytes = request.write_to_bytes().map_err(|err| Fault::new(Code::Criu, "encode a request to CRIU", err))?;
        sendmsg::<()>(self.socket.as_raw_fd(), &[IoSlice::new(&bytes)], &[], MsgFlags::MSG_NOSIGNAL, None)
            .map_err(std::io::Error::from)
            .attempt(|| "send a request to CRIU")?;
        Ok(())
    }

    fn wait_for_answer(&self) -> Result<()> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let mut wait = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut wait, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
                Err(nix::errno::Errno::EINTR) => {}
                Err(err) => return Err(Fault::io("wait for CRIU's answer", &err.into())),
                Ok(0) => {
                    return Err(Fault::new(Code::Deadline, "wait for CRIU's answer", "none came in 50 minutes")
                        .advise("see CRIU's log, and whether the disk hangs"));
                }
                Ok(_) => return Ok(()),
            }
        }
    }

    fn receive(&self) -> Result<(rpc::Criu_resp, Vec<OwnedFd>)> {
        let what = || "read CRIU's answer";
        self.wait_for_answer()?;
        let mut bytes = vec![0; MESSAGE_MAX];
        let mut control = nix::cmsg_space!([std::os::fd::RawFd; 1]);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let (length, truncated, fds) = loop {
            match recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC) {
                Err(nix::errno::Errno::EINTR) => continue,
                Err(err) => return Err(Fault::io(what(), &err.into())),
                Ok(message) => {
                    let fds = descriptors(&message);
                    break (message.bytes, message.flags.contains(MsgFlags::MSG_TRUNC), fds);
                }
            }
        };
        if length == 0 {
            return Err(Fault::new(Code::Criu, what(), "CRIU ended without one"));
        }
        if truncated {
            return Err(Fault::new(Code::Criu, what(), format_args!("longer than {MESSAGE_MAX} bytes")));
        }
        let answer =
            rpc::Criu_resp::parse_from_bytes(&bytes[..length]).map_err(|err| Fault::new(Code::Criu, what(), err))?;
        Ok((answer, fds))
    }
}

fn descriptors(message: &nix::sys::socket::RecvMsg<'_, '_, ()>) -> Vec<OwnedFd> {
    use std::os::fd::FromRawFd;
    let Ok(messages) = message.cmsgs() else { return Vec::new() };
    messages
        .filter_map(|message| match message {
            ControlMessageOwned::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        // SAFETY: the kernel has just put these descriptors into this process; nobody else owns them.
        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
        .collect()
}

fn serve(notify: &rpc::Criu_notify, fds: Vec<OwnedFd>, steps: &mut dyn Steps) -> Result<()> {
    match notify.script() {
        "setup-namespaces" => steps.namespaces_ready(notify.pid()),
        "post-restore" => steps.restored(notify.pid()),
        "pre-resume" => steps.before_resume(),
        "orphan-pts-master" => fds.into_iter().try_for_each(|fd| steps.terminal(fd)),
        _ => Ok(()),
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Only after a failure in between: without its socket CRIU has nobody to answer to.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
