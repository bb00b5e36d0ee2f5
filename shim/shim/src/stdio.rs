//! The streams of a container's process: pipes into the process, copied to and from where containerd wants them, so
//! that the process outlives a containerd that restarts and CRIU finds plain pipes when the container is saved. A
//! logging program reads the pipes itself.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use containerd_shim::asynchronous::io::{IoTasks, Stdio};
use tokio::io::AsyncRead;
use tokio::net::unix::pipe;

use crate::children::Streams;
use crate::destination::Destination;
use crate::fifo;
use crate::logger::{Logger, Owner};
use crate::process::Process;
use crate::terminal::{self, ConsoleSocket};

/// Who gets the streams of the processes of a container.
#[derive(Clone, Copy, Debug)]
pub struct Attachment<'a> {
    /// Folder for the sockets over which terminals come.
    pub sockets: &'a Path,
    /// The name that a logging program is told.
    pub owner: Owner<'a>,
    /// User and group that own the process's ends of its pipes.
    pub user: (u32, u32),
}

/// Has `run` make a process with the streams that containerd wants of it: pipes, or a terminal whose master side the
/// engine sends to the socket that `run` is given.
///
/// # Errors
/// What `run` says, or why a stream cannot be had.
pub async fn attached(
    attachment: &Attachment<'_>,
    process: &Process,
    run: impl AsyncFnOnce(Streams, Option<PathBuf>) -> Result<u32>,
) -> Result<u32> {
    if !process.stdio.terminal {
        let (streams, ends) = pipes(attachment, process).await?;
        let pid = run(streams, None).await?;
        // Only now: what an engine that fails complains of is not the container's.
        ends.attach(process).await?;
        return Ok(pid);
    }
    let output = Outlet::open(attachment, process).await?;
    let socket = ConsoleSocket::listen(attachment.sockets)?;
    let path = socket.path().to_path_buf();
    let made = run(Streams { stdin: None, stdout: None, stderr: None }, Some(path));
    let receive = socket.receive();
    tokio::pin!(made, receive);
    // The engine ends only when its terminal has been taken; when it fails, no terminal comes.
    let (pid, pty) = tokio::select! {
        pid = &mut made => (pid?, receive.await?),
        pty = &mut receive => (made.await?, pty?),
    };
    let io = process.io();
    if !process.stdio.stdin.is_empty() {
        terminal::copy_input(&pty, &process.stdio.stdin, &io)?;
    }
    output.copy_from(terminal::Output::of(&pty), process).await?;
    process.set_pty(pty);
    Ok(pid)
}

/// The shim's ends of a process's pipes, and where they lead.
#[derive(Default)]
struct Ends {
    input: Option<OwnedFd>,
    outputs: Vec<(OwnedFd, Outlet)>,
}

impl Ends {
    /// Starts the copies.
    async fn attach(self, process: &Process) -> Result<()> {
        if let Some(input) = self.input {
            let path = &process.stdio.stdin;
            let to = pipe::Sender::from_owned_fd(input).attempt(|| "use a pipe")?;
            process.io().copy_from_fifo(path, to).map_err(|err| refused(path, &err))?;
        }
        for (end, outlet) in self.outputs {
            outlet.copy_from(pipe::Receiver::from_owned_fd(end).attempt(|| "use a pipe")?, process).await?;
        }
        Ok(())
    }
}

/// Makes a pipe for each stream that containerd wants, and what they lead to.
async fn pipes(attachment: &Attachment<'_>, process: &Process) -> Result<(Streams, Ends)> {
    let Stdio { stdin, stdout, stderr, .. } = &process.stdio;
    let mut streams = Streams { stdin: None, stdout: None, stderr: None };
    let mut ends = Ends::default();
    let (output, errors) = (Destination::parse(stdout)?, Destination::parse(stderr)?);
    if !stdin.is_empty() {
        let (read, write) = pipe_of(attachment)?;
        (streams.stdin, ends.input) = (Some(read), Some(write));
    }
    if let Destination::Binary { program, args } = &output {
        let (read, write) = pipe_of(attachment)?;
        let (read_errors, write_errors) = pipe_of(attachment)?;
        process.logs.keep(Logger::start(program, args, attachment.owner, read, read_errors).await?);
        streams.stdout = Some(write);
        // One program for both, as containerd has it.
        if matches!(errors, Destination::Binary { .. }) {
            streams.stderr = Some(write_errors);
            return Ok((streams, ends));
        }
    } else {
        streams.stdout = piped(attachment, output, &mut ends)?;
    }
    streams.stderr = piped(attachment, errors, &mut ends)?;
    Ok((streams, ends))
}

/// The process's end of a pipe whose other end leads to that destination; none for none.
fn piped(attachment: &Attachment<'_>, to: Destination, ends: &mut Ends) -> Result<Option<OwnedFd>> {
    let outlet = match to {
        Destination::None => return Ok(None),
        Destination::Path(path) => Outlet::at(path)?,
        Destination::File(path) => Outlet::File(appended(&path)?),
        Destination::Binary { .. } => {
            return Err(Fault::new(Code::Usage, "attach errors to a logging program", "the output goes elsewhere")
                .advise("name one log URI for both"));
        }
    };
    let (read, write) = pipe_of(attachment)?;
    ends.outputs.push((read, outlet));
    Ok(Some(write))
}

fn pipe_of(attachment: &Attachment<'_>) -> Result<(OwnedFd, OwnedFd)> {
    let (read, write) = std::io::pipe().attempt(|| "make a pipe for a container")?;
    if attachment.user != (0, 0) {
        let (user, group) = attachment.user;
        std::os::unix::fs::fchown(write.as_fd(), Some(user), Some(group))
            .attempt(|| format!("give a pipe to {user}:{group}"))?;
    }
    Ok((read.into(), write.into()))
}

/// Where a process's output is copied to.
enum Outlet {
    None,
    Fifo(String),
    File(File),
    /// A pipe into a logging program.
    Pipe(OwnedFd),
}

impl Outlet {
    /// For the output of a terminal.
    async fn open(attachment: &Attachment<'_>, process: &Process) -> Result<Outlet> {
        match Destination::parse(&process.stdio.stdout)? {
            Destination::None => Ok(Outlet::None),
            Destination::Path(path) => Outlet::at(path),
            Destination::File(path) => Ok(Outlet::File(appended(&path)?)),
            Destination::Binary { program, args } => {
                let (read, write) = pipe_of(attachment)?;
                // A terminal has no errors of its own: the program finds their end at once.
                let (read_errors, _) = pipe_of(attachment)?;
                process.logs.keep(Logger::start(&program, &args, attachment.owner, read, read_errors).await?);
                Ok(Outlet::Pipe(write))
            }
        }
    }

    /// A FIFO, or a file that exists.
    fn at(path: PathBuf) -> Result<Outlet> {
        let what = || format!("attach to {}", path.display());
        let kind = std::fs::metadata(&path).attempt(what)?.file_type();
        if !kind.is_fifo() {
            return OpenOptions::new().append(true).open(&path).attempt(what).map(Outlet::File);
        }
        let text = path.to_str().ok_or_else(|| Fault::new(Code::Usage, what(), "its name is not text"))?;
        Ok(Outlet::Fifo(text.to_string()))
    }

    async fn copy_from(self, from: impl AsyncRead + Send + Unpin + 'static, process: &Process) -> Result<()> {
        match self {
            Outlet::None => Ok(()),
            Outlet::Fifo(path) => {
                // Let go when the copy has opened it too.
                let _read = fifo::awaited(&path).await?;
                process.io().copy_to_fifo(from, &path).map_err(|err| refused(&path, &err))
            }
            Outlet::File(file) => {
                process.logs.copy(from, tokio::fs::File::from_std(file));
                Ok(())
            }
            Outlet::Pipe(pipe) => {
                let to = pipe::Sender::from_owned_fd(pipe).attempt(|| "use a pipe")?;
                process.logs.copy(from, to);
                Ok(())
            }
        }
    }
}

/// A log file, made with its folders where there is none.
fn appended(path: &Path) -> Result<File> {
    let what = || format!("write the log {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).attempt(what)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o644).open(path).attempt(what)
}

fn refused(path: &str, err: &dyn std::fmt::Display) -> Fault {
    Fault::new(Code::System, format!("attach to {path}"), err).advise("start the task again")
}

/// Lets go of copies that a start which failed has begun.
pub async fn let_go(process: &Process) {
    process.renew_io().await;
    process.logs.abort();
}

/// The copies between a process and containerd's FIFOs, which a start that failed leaves as good as new.
#[derive(Default)]
pub struct Copies(std::sync::Mutex<IoTasks>);

impl Copies {
    /// The copies of this start.
    pub fn current(&self) -> IoTasks {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Ends the copies of a start that failed; the next one begins anew.
    pub async fn renew(&self) {
        let old = {
            let mut current = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let fresh = current.renew();
            std::mem::replace(&mut *current, fresh)
        };
        old.abort().await;
    }
}
