//! Programs that the shim runs. The shim reaps every child in one place (as a subreaper it also gets the
//! orphans of its containers), so a program's end is learned from that place and not from `wait` on it.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use baton_fault::{Attempt, Code, Fault, Result};
use containerd_shim::monitor::{Subject, Subscription, Topic, monitor_subscribe, monitor_unsubscribe};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// Most output that is kept of a program, in bytes; the rest is read and dropped.
const OUTPUT_MAX: usize = 1 << 20;

/// How long an orphan may go on by itself, and how often it is looked at.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(20);
const ORPHAN_RETRY: Duration = Duration::from_millis(20);

/// How a program ended and what it printed.
pub struct Finished {
    /// Exit status, or 128 + the signal that ended it.
    pub status: i32,
    /// What it wrote to standard output, at most [`OUTPUT_MAX`] bytes.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error, at most [`OUTPUT_MAX`] bytes.
    pub stderr: Vec<u8>,
}

/// A watch on the ends of all children from the moment it is made, so that none is missed between the making of
/// a process and the learning of its pid.
pub struct ExitWatch(Subscription);

impl ExitWatch {
    /// Starts to watch.
    pub async fn begin() -> Result<ExitWatch> {
        monitor_subscribe(Topic::Pid).await.map(ExitWatch).map_err(|err| {
            Fault::new(Code::Unavailable, "watch the ends of processes", err).advise("restart the container")
        })
    }

    /// Waits for the end of `pid` and gives its status.
    pub async fn wait(mut self, pid: u32) -> i32 {
        let status = loop {
            match self.0.rx.recv().await {
                Some(event) => {
                    if matches!(event.subject, Subject::Pid(ended) if u32::try_from(ended) == Ok(pid)) {
                        break event.exit_code;
                    }
                }
                // The reaper lives as long as the shim; without it no end can be learned any more.
                None => std::future::pending().await,
            }
        };
        if let Err(err) = monitor_unsubscribe(self.0.id).await {
            log::warn!("a watch on exits could not be removed: {err}");
        }
        status
    }

    /// Ends the watch without having waited for anything.
    pub async fn forget(self) {
        if let Err(err) = monitor_unsubscribe(self.0.id).await {
            log::warn!("a watch on exits could not be removed: {err}");
        }
    }
}

/// Standard streams of a program that takes those of a container.
pub struct Streams {
    /// Standard input, or none for `/dev/null`.
    pub stdin: Option<OwnedFd>,
    /// Standard output, or none for `/dev/null`.
    pub stdout: Option<OwnedFd>,
    /// Standard error, or none for `/dev/null`.
    pub stderr: Option<OwnedFd>,
}

/// Runs a program to its end with its output kept; gives up (and kills it) after `limit`.
///
/// # Errors
/// `UNAVAILABLE` when it cannot be started, `DEADLINE` when it overran.
pub async fn run(mut command: Command, input: Option<Vec<u8>>, limit: Duration) -> Result<Finished> {
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = name(&command);
    let watch = ExitWatch::begin().await?;
    let mut child = match spawn(&mut command) {
        Ok(child) => child,
        Err(fault) => {
            watch.forget().await;
            return Err(fault);
        }
    };
    let stdout = child.stdout.take().map(OwnedFd::from);
    let stderr = child.stderr.take().map(OwnedFd::from);
    let stdin = child.stdin.take().map(OwnedFd::from);
    let pid = child.id();
    let all = async { tokio::join!(feed(stdin, input), collect(stdout), collect(stderr), watch.wait(pid)) };
    match tokio::time::timeout(limit, all).await {
        Ok((_, stdout, stderr, status)) => Ok(Finished { status, stdout: stdout?, stderr: stderr? }),
        Err(_) => {
            kill(pid);
            Err(Fault::new(Code::Deadline, format!("run {name}"), format!("no end after {} s", limit.as_secs()))
                .advise("see whether the disk or the driver hangs; the container was not changed by the shim"))
        }
    }
}

/// Runs a program that hands its standard streams on to a container. What it says goes to a log of its own, so
/// nothing is collected here.
///
/// # Errors
/// As [`run`].
pub async fn run_with_streams(mut command: Command, streams: Streams, limit: Duration) -> Result<i32> {
    let stdio = |fd: Option<OwnedFd>| fd.map_or_else(Stdio::null, Stdio::from);
    command.stdin(stdio(streams.stdin)).stdout(stdio(streams.stdout)).stderr(stdio(streams.stderr));
    let name = name(&command);
    let watch = ExitWatch::begin().await?;
    let pid = match spawn(&mut command) {
        Ok(child) => child.id(),
        Err(fault) => {
            watch.forget().await;
            return Err(fault);
        }
    };
    // The command holds the container's ends of the pipes until it is dropped.
    drop(command);
    match tokio::time::timeout(limit, watch.wait(pid)).await {
        Ok(status) => Ok(status),
        Err(_) => {
            kill(pid);
            Err(Fault::new(Code::Deadline, format!("run {name}"), format!("no end after {} s", limit.as_secs()))
                .advise("see the engine's log in the bundle"))
        }
    }
}

/// Waits until no program of that name is a child of the shim any more: one whose own parent was killed becomes the
/// shim's. It is given time to end by itself, and then killed.
///
/// # Errors
/// `DEADLINE` when it survives even that.
pub async fn end_orphans(name: &str) -> Result<()> {
    let began = std::time::Instant::now();
    loop {
        let orphans = orphans(name);
        if orphans.is_empty() {
            return Ok(());
        }
        if began.elapsed() > ORPHAN_PATIENCE {
            orphans.iter().for_each(|pid| kill(*pid));
        }
        if began.elapsed() > 2 * ORPHAN_PATIENCE {
            return Err(Fault::new(
                Code::Deadline,
                format!("end the program {name} that lost its parent"),
                "it does not end",
            )
            .advise("see whether it hangs in the kernel"));
        }
        tokio::time::sleep(ORPHAN_RETRY).await;
    }
}

fn orphans(name: &str) -> Vec<u32> {
    let me = std::process::id();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // `PID (NAME) STATE PPID …`; the name may hold brackets.
            let Some((head, tail)) = stat.rsplit_once(") ") else { return false };
            let mut fields = tail.split_whitespace();
            let (state, parent) = (fields.next(), fields.next().and_then(|parent| parent.parse::<u32>().ok()));
            head.split_once(" (").is_some_and(|(_, comm)| comm == name) && state != Some("Z") && parent == Some(me)
        })
        .collect()
}

/// Starts a program.
///
/// # Errors
/// `UNAVAILABLE`.
pub fn spawn(command: &mut Command) -> Result<std::process::Child> {
    let name = name(command);
    command.spawn().map_err(|err| {
        let advice = match err.kind() {
            ErrorKind::NotFound => "see whether it is installed, and where PATH or BinaryName says",
            _ => "see whether the node is short of memory or processes",
        };
        Fault::new(Code::Unavailable, format!("start {name}"), err).advise(advice)
    })
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn kill(pid: u32) {
    if let Ok(pid) = i32::try_from(pid)
        && let Err(err) = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
    {
        log::warn!("kill of the program {pid} that overran: {err}");
    }
}

async fn feed(stdin: Option<OwnedFd>, input: Option<Vec<u8>>) {
    use tokio::io::AsyncWriteExt;
    let (Some(stdin), Some(input)) = (stdin, input) else { return };
    let written = match pipe::Sender::from_owned_fd(stdin) {
        Ok(mut sender) => sender.write_all(&input).await,
        Err(err) => Err(err),
    };
    // A program that ends before it has read its input says why itself.
    if let Err(err) = written {
        log::debug!("a program did not read its input: {err}");
    }
}

async fn collect(output: Option<OwnedFd>) -> Result<Vec<u8>> {
    let Some(output) = output else { return Ok(Vec::new()) };
    let mut from = pipe::Receiver::from_owned_fd(output).attempt(|| "read the output of a program")?;
    let mut kept = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let n = from.read(&mut buffer).await.attempt(|| "read the output of a program")?;
        if n == 0 {
            return Ok(kept);
        }
        let room = OUTPUT_MAX - kept.len();
        kept.extend_from_slice(&buffer[..n.min(room)]);
    }
}
