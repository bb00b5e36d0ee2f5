//! A logging program, as containerd's contract has it: it reads a process's output at descriptor 3 and its errors at
//! 4, closes 5 when it is ready, and knows whose they are from `CONTAINER_ID` and `CONTAINER_NAMESPACE`, which are all
//! of its environment (containerd's `pkg/logging` is the other side). It is to end when there is nothing more to read.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::children::ExitWatch;

/// Longest wait for the program to be ready.
const READY_PATIENCE: Duration = Duration::from_secs(30);
/// How long it may go on by itself once its process is deleted, and then after SIGTERM.
const END_PATIENCE: Duration = Duration::from_secs(2);
const TERM_PATIENCE: Duration = Duration::from_secs(10);
/// The descriptors of the contract.
const CONTRACT: [RawFd; 3] = [3, 4, 5];

/// A logging program that runs.
#[derive(Debug)]
pub struct Logger {
    pid: u32,
    ended: watch::Receiver<bool>,
}

/// Whose output a logging program gets.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The container's or the exec's name.
    pub id: &'a str,
    /// containerd's namespace.
    pub namespace: &'a str,
}

impl Logger {
    /// Starts the program and waits until it is ready.
    ///
    /// # Errors
    /// `UNAVAILABLE` when it cannot be started, `DEADLINE` when it does not get ready.
    pub async fn start(
        program: &Path,
        args: &[String],
        owner: Owner<'_>,
        output: OwnedFd,
        errors: OwnedFd,
    ) -> Result<Logger> {
        let what = || format!("start the logging program {}", program.display());
        let (ready, say_ready) = std::io::pipe().attempt(what)?;
        let mut command = Command::new(program);
        command.args(args).env_clear().env("CONTAINER_ID", owner.id).env("CONTAINER_NAMESPACE", owner.namespace);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let exits = ExitWatch::begin().await?;
        let pid = match spawn_with(command, [output, errors, say_ready.into()]) {
            Ok(pid) => pid,
            Err(err) => {
                exits.forget().await;
                return Err(Fault::new(Code::Unavailable, what(), err)
                    .advise("see whether it is installed where the log URI says"));
            }
        };
        let (say_ended, ended) = watch::channel(false);
        tokio::spawn(async move {
            let status = exits.wait(pid).await;
            if status != 0 {
                log::info!("the logging program {pid} ended with status {status}");
            }
            say_ended.send_replace(true);
        });
        let logger = Logger { pid, ended };
        let mut ready = pipe::Receiver::from_owned_fd(ready.into()).attempt(what)?;
        // One byte or the end of it: both mean ready.
        match tokio::time::timeout(READY_PATIENCE, ready.read(&mut [0; 1])).await {
            Ok(read) => read.attempt(what).map(|_| logger),
            Err(_) => {
                logger.signal(Signal::SIGKILL);
                Err(Fault::new(Code::Deadline, what(), format!("not ready after {} s", READY_PATIENCE.as_secs()))
                    .advise("it has to close descriptor 5 when it is ready"))
            }
        }
    }

    /// Waits for its end; one that does not end by itself is told to, and one that does not heed that is killed.
    pub async fn close(mut self) {
        for (patience, signal) in [(END_PATIENCE, Signal::SIGTERM), (TERM_PATIENCE, Signal::SIGKILL)] {
            if tokio::time::timeout(patience, self.ended.wait_for(|ended| *ended)).await.is_ok() {
                return;
            }
            self.signal(signal);
        }
    }

    /// Tells it to end, without waiting.
    pub fn abort(&self) {
        self.signal(Signal::SIGTERM);
    }

    fn signal(&self, signal: Signal) {
        let Ok(pid) = i32::try_from(self.pid) else { return };
        // Once it is reaped its number may be another's.
        if !*self.ended.borrow()
            && let Err(err) = nix::sys::signal::kill(Pid::from_raw(pid), signal)
        {
            log::warn!("signal the logging program {pid}: {err}");
        }
    }
}

/// Starts a program with these descriptors in the places of the contract.
fn spawn_with(mut command: Command, given: [OwnedFd; 3]) -> std::io::Result<u32> {
    // The places must be taken here already, or what the standard library opens for the start would lie in them.
    let mut taken = vec![std::fs::File::open("/dev/null")?];
    while taken.last().is_some_and(|file| file.as_raw_fd() <= CONTRACT[2]) {
        taken.push(std::fs::File::open("/dev/null")?);
    }
    let numbers = given.each_ref().map(AsRawFd::as_raw_fd);
    // SAFETY: between fork and exec only fcntl and dup2 are called, which are async-signal-safe; the numbers are of
    // descriptors that live until `spawn` has returned.
    unsafe {
        command.pre_exec(move || {
            let mut high = [0; 3];
            for (high, number) in high.iter_mut().zip(numbers) {
                // Out of the way of the places, as one may lie in another's.
                *high = checked(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 64))?;
            }
            for (high, place) in high.into_iter().zip(CONTRACT) {
                checked(libc::dup2(high, place))?;
            }
            Ok(())
        });
    }
    command.spawn().map(|child| child.id())
}

fn checked(number: RawFd) -> std::io::Result<RawFd> {
    if number < 0 { Err(std::io::Error::last_os_error()) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_program_finds_output_errors_and_the_word_of_its_readiness_in_their_places() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("log");
        let (output, mut say) = std::io::pipe().expect("a pipe");
        let (errors, mut complain) = std::io::pipe().expect("a pipe");
        let (mut ready, say_ready) = std::io::pipe().expect("a pipe");
        std::io::Write::write_all(&mut say, b"out\n").expect("write");
        std::io::Write::write_all(&mut complain, b"err\n").expect("write");
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg("exec 5>&-; cat <&3 >$0; cat <&4 >>$0").arg(&file);
        let pid = spawn_with(command, [output.into(), errors.into(), say_ready.into()]).expect("spawn");
        assert_eq!(ready.read(&mut [0; 1]).expect("ready"), 0);
        drop((say, complain));
        let pid = Pid::from_raw(i32::try_from(pid).expect("a pid"));
        nix::sys::wait::waitpid(pid, None).expect("its end");
        let text = std::fs::read_to_string(&file).expect("the log");
        assert_eq!(text, "out\nerr\n");
    }

    #[test]
    fn a_program_that_is_not_there_is_told() {
        let (read, write) = std::io::pipe().expect("a pipe");
        let other = read.try_clone().expect("a copy");
        let error = spawn_with(Command::new("/nowhere"), [read.into(), other.into(), write.into()]);
        assert_eq!(error.expect_err("no program").kind(), std::io::ErrorKind::NotFound);
    }
}
