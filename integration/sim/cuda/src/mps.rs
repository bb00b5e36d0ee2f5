//! Being a client of an MPS server: `cuInit` asks the control daemon in the pipe directory, where there is one, and shares
//! what it is given (docs.nvidia.com/deploy/mps). Without a daemon CUDA works without, and says nothing.

use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use baton_sim_wire::{Channel, MPS_CLIENT_TERMINATED, MPS_CONNECTION_FAILED, MPS_SOCKET, MpsReply, MpsRequest};

use crate::codes::{Code, Outcome};

/// Where the daemon is looked for unless `CUDA_MPS_PIPE_DIRECTORY` says otherwise.
const PIPES: &str = "/tmp/nvidia-mps";

/// Memory of a device, named by UUID or by its number.
type Limit = (String, u64);

/// What the process has been given, and what it asked for.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    threads_asked: Option<u32>,
    memory_asked: Vec<Limit>,
    memory_given: Vec<Limit>,
    /// None while the process is checkpointed.
    connection: Option<Channel>,
    has_faulted: bool,
    /// Pid of the server.
    pub server: i32,
    /// Its share of the multiprocessors, in percent.
    pub threads: u32,
}

impl Client {
    /// Becomes a client for those devices, if there is a daemon.
    ///
    /// # Errors
    /// What the daemon refuses with.
    pub fn join(devices: &[String]) -> Outcome<Option<Client>> {
        let variable = |name: &str| std::env::var(name).ok();
        let socket = PathBuf::from(variable("CUDA_MPS_PIPE_DIRECTORY").unwrap_or(PIPES.to_owned())).join(MPS_SOCKET);
        let Ok(connection) = Channel::connect(&socket) else { return Ok(None) };
        let percent = variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").and_then(|text| text.trim().parse::<f64>().ok());
        let mut client = Client {
            socket,
            threads_asked: percent.map(|percent| percent.clamp(1.0, 100.0) as u32),
            memory_asked: limits_of(&variable("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT").unwrap_or_default()),
            memory_given: Vec::new(),
            connection: None,
            has_faulted: false,
            server: 0,
            threads: 100,
        };
        client.ask(connection, devices)?;
        Ok(Some(client))
    }

    /// Becomes one again, after a checkpoint.
    pub fn rejoin(&mut self, devices: &[String]) -> Outcome {
        let connection = Channel::connect(&self.socket).map_err(|_| Code(MPS_CONNECTION_FAILED))?;
        self.ask(connection, devices)
    }

    /// Is none for now.
    pub fn leave(&mut self) {
        self.connection = None;
    }

    fn ask(&mut self, connection: Channel, devices: &[String]) -> Outcome {
        let request = MpsRequest::Client { cards: devices.to_vec(), threads: self.threads_asked };
        match connection.ask::<_, MpsReply>(&request) {
            Ok((MpsReply::Welcome { server, threads, memory }, _)) => {
                (self.server, self.threads, self.memory_given) = (server, threads, memory);
                self.connection = Some(connection);
                Ok(())
            }
            Ok((MpsReply::Refused { code }, _)) => Err(Code(code)),
            _ => Err(Code(MPS_CONNECTION_FAILED)),
        }
    }

    /// Whether the daemon still has it as a client: it ends the connection of one that is not to go on.
    pub fn check(&self) -> Outcome {
        let Some(connection) = self.connection.as_ref().filter(|_| !self.has_faulted) else { return Ok(()) };
        let mut entry = libc::pollfd { fd: connection.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, alive for the call.
        let ended = unsafe { libc::poll(&raw mut entry, 1, 0) } > 0;
        if ended { Err(Code(MPS_CLIENT_TERMINATED)) } else { Ok(()) }
    }

    /// A context of this process is broken: all who share its cards are lost with it. It goes on to tell its own error.
    pub fn fault(&mut self) {
        if let (Some(connection), false) = (&self.connection, self.has_faulted) {
            self.has_faulted = true;
            // A daemon that is gone has nobody to tell.
            let _ = connection.send(&MpsRequest::Faulted);
        }
    }

    /// The most memory of a device, by UUID or number; what is asked for can only be less than what is given.
    pub fn limit(&self, device: &str, number: i32) -> Option<u64> {
        let all = self.memory_given.iter().chain(&self.memory_asked);
        all.filter(|(name, _)| name == device || name.parse() == Ok(number)).map(|(_, bytes)| *bytes).min()
    }
}

/// `0=1G,GPU-…=512M`.
fn limits_of(text: &str) -> Vec<Limit> {
    let one = |word: &str| {
        let (name, size) = word.trim().split_once('=')?;
        let (number, unit) = match size.strip_suffix(['G', 'g']) {
            Some(number) => (number, 1 << 30),
            None => (size.strip_suffix(['M', 'm'])?, 1u64 << 20),
        };
        Some((name.to_owned(), number.parse::<u64>().ok()?.checked_mul(unit)?))
    };
    text.split(',').filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_the_least_counts() {
        let client = |given: &str, asked: &str| Client {
            socket: PathBuf::new(),
            threads_asked: None,
            memory_asked: limits_of(asked),
            memory_given: limits_of(given),
            connection: None,
            has_faulted: false,
            server: 0,
            threads: 100,
        };
        assert_eq!(limits_of("0=6G, GPU-1=600M,x,1=2T"), [("0".to_owned(), 6 << 30), ("GPU-1".to_owned(), 600 << 20)]);
        assert_eq!(client("GPU-1=2G", "0=1G").limit("GPU-1", 0), Some(1 << 30));
        assert_eq!(client("GPU-1=2G", "0=3G").limit("GPU-1", 0), Some(2 << 30));
        assert_eq!(client("GPU-1=2G", "0=1G").limit("GPU-2", 1), None);
    }
}
