//! A simulated `nvidia-cuda-mps-control`: the daemon that CUDA programs meet in the pipe directory, its servers, and the
//! console by which an administrator talks to it.
//!
//! As NVIDIA documents it (docs.nvidia.com/deploy/mps): one server for one user at a time, unless it is for many; clients
//! of other users wait. A fatal fault of one client puts the server into FAULT until all clients that share a card with it
//! are gone.

mod command;
mod console;
mod control;
mod daemon;
mod limits;
mod server;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

const USAGE: &str = "usage: nvidia-cuda-mps-control -d [-multiuser-server]   start the daemon
       nvidia-cuda-mps-control -f [-multiuser-server]   the same in the foreground
       nvidia-cuda-mps-control                          read commands from the standard input
CUDA_MPS_PIPE_DIRECTORY (/tmp/nvidia-mps) and CUDA_MPS_LOG_DIRECTORY (/var/log/nvidia-mps) say where it lives.";

/// Where a daemon lives.
#[derive(Debug, Clone)]
pub struct Places {
    /// Its socket and its pid file.
    pub pipes: PathBuf,
    /// Its log.
    pub logs: PathBuf,
}

impl Places {
    fn of_environment() -> Places {
        let named = |name: &str, default: &str| std::env::var_os(name).unwrap_or_else(|| default.into()).into();
        Places {
            pipes: named("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"),
            logs: named("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps"),
        }
    }
}

fn main() -> ExitCode {
    // What is not UTF-8 is no option either way.
    let mut arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let name = arguments.next().unwrap_or_default();
    if name.ends_with(server::NAME) {
        server::stand();
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = arguments.collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let places = Places::of_environment();
    let done = match words.as_slice() {
        [] => console::talk(&places),
        ["-f"] => daemon::serve(&places, false),
        ["-f", "-multiuser-server"] => daemon::serve(&places, true),
        ["-d", rest @ ..] if rest.is_empty() || rest == ["-multiuser-server"] => start(rest),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the daemon in a session of its own and returns when it listens.
fn start(rest: &[&str]) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program);
    command.arg("-f").args(rest).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("cannot start the daemon: {error}"))?;
    let mut word = String::new();
    if let Some(out) = child.stdout.take() {
        let read = std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut word);
        read.map_err(|error| format!("cannot hear the daemon: {error}"))?;
    }
    if word.trim_end() == daemon::READY {
        return Ok(());
    }
    let ended = child.wait_with_output().map_err(|error| format!("cannot hear the daemon: {error}"))?;
    Err(String::from_utf8_lossy(&ended.stderr).trim_end().to_owned())
}
