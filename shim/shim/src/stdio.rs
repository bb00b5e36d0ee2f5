//! The streams of a container's process: pipes into the process, copied to and from containerd's FIFOs, so that
//! the process outlives a containerd that restarts and CRIU finds plain pipes when the container is saved.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use containerd_shim::asynchronous::io::{IoTasks, Stdio};
use tokio::net::unix::pipe;

use crate::children::Streams;
use crate::process::Process;
use crate::terminal::{self, ConsoleSocket};

/// Has `run` make a process with the streams that containerd wants of it: pipes, or a terminal whose master side the
/// engine sends to the socket that `run` is given; and starts the copies once it is made.
///
/// # Errors
/// What `run` says, or why a stream cannot be had.
pub async fn attached(
    sockets: &Path,
    process: &Process,
    run: impl AsyncFnOnce(Streams, Option<PathBuf>) -> Result<u32>,
) -> Result<u32> {
    if !process.stdio.terminal {
        let (streams, ends) = pipes(&process.stdio)?;
        let pid = run(streams, None).await?;
        ends.attach(&process.stdio, &process.io)?;
        return Ok(pid);
    }
    let socket = ConsoleSocket::listen(sockets)?;
    let path = socket.path().to_path_buf();
    let made = run(Streams { stdin: None, stdout: None, stderr: None }, Some(path));
    let receive = socket.receive();
    tokio::pin!(made, receive);
    // The engine ends only when its terminal has been taken; when it fails, no terminal comes.
    let (pid, pty) = tokio::select! {
        pid = &mut made => (pid?, receive.await?),
        pty = &mut receive => (made.await?, pty?),
    };
    terminal::attach(&pty, &process.stdio, &process.io)?;
    process.set_pty(pty);
    Ok(pid)
}

/// The shim's ends of a process's pipes.
struct Ends {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
}

/// Makes a pipe for each stream that containerd wants: the process's ends and the shim's.
///
/// # Errors
/// `USAGE` for a stream that is no FIFO path, `SYSTEM` when no pipe can be made.
fn pipes(stdio: &Stdio) -> Result<(Streams, Ends)> {
    let wanted = |path: &str| -> Result<Option<(OwnedFd, OwnedFd)>> {
        if path.is_empty() {
            return Ok(None);
        }
        if path.contains("://") {
            return Err(Fault::new(Code::Usage, format!("attach a stream to {path}"), "only FIFOs are supported")
                .advise("start the task without a log URI"));
        }
        let (read, write) = std::io::pipe().attempt(|| "make a pipe for a container")?;
        Ok(Some((read.into(), write.into())))
    };
    let (stdin_read, stdin_write) = wanted(&stdio.stdin)?.unzip();
    let (stdout_read, stdout_write) = wanted(&stdio.stdout)?.unzip();
    let (stderr_read, stderr_write) = wanted(&stdio.stderr)?.unzip();
    Ok((
        Streams { stdin: stdin_read, stdout: stdout_write, stderr: stderr_write },
        Ends { stdin: stdin_write, stdout: stdout_read, stderr: stderr_read },
    ))
}

impl Ends {
    /// Starts the copies.
    ///
    /// # Errors
    /// `SYSTEM` when a FIFO of containerd cannot be opened.
    fn attach(self, stdio: &Stdio, io: &IoTasks) -> Result<()> {
        let refused = |path: &str, err: &dyn std::fmt::Display| {
            Fault::new(Code::System, format!("attach to {path}"), err).advise("start the task again")
        };
        if let Some(stdin) = self.stdin {
            let to = pipe::Sender::from_owned_fd(stdin).attempt(|| "use a pipe")?;
            io.copy_from_fifo(&stdio.stdin, to).map_err(|err| refused(&stdio.stdin, &err))?;
        }
        for (end, path) in [(self.stdout, &stdio.stdout), (self.stderr, &stdio.stderr)] {
            if let Some(end) = end {
                let from = pipe::Receiver::from_owned_fd(end).attempt(|| "use a pipe")?;
                io.copy_to_fifo(from, path).map_err(|err| refused(path, &err))?;
            }
        }
        Ok(())
    }
}
