//! The daemon: a thread for each connection, one lock around the records.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use baton_sim_wire::{Channel, MPS_CONNECTION_FAILED, MPS_SOCKET, MpsReply, MpsRequest};

use crate::Places;
use crate::command::{self, Deed};
use crate::control::{Admission, Client, Control};
use crate::server;

/// What the daemon says when it listens.
pub const READY: &str = "ready";
const PID_FILE: &str = "nvidia-cuda-mps-control.pid";
/// More connections than this are turned away: each takes two descriptors, and a process often has no more than 1024.
const MOST_CONNECTIONS: usize = 400;
/// How long it waits after a connection that could not be taken.
const BREATH: Duration = Duration::from_millis(10);

#[derive(Default)]
struct Records {
    control: Control,
    processes: HashMap<i32, Child>,
    connections: HashMap<u64, Channel>,
    /// Commands that have not been answered yet.
    unanswered: usize,
}

struct Daemon {
    records: Mutex<Records>,
    changed: Condvar,
    log: fs::File,
}

impl Daemon {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: &str) {
        // A full disk does not stop the daemon.
        let _ = writeln!(&self.log, "{what}");
    }
}

/// Serves until it is told to quit.
///
/// # Errors
/// When another daemon serves there, or the places cannot be used.
pub fn serve(places: &Places, multiuser: bool) -> Result<(), String> {
    for folder in [&places.pipes, &places.logs] {
        fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    }
    let pid_file = places.pipes.join(PID_FILE);
    let own = |error| format!("cannot use {}: {error}", pid_file.display());
    let guard = fs::File::options().create(true).truncate(false).write(true).open(&pid_file).map_err(own)?;
    // SAFETY: plain numbers and our own descriptor.
    if unsafe { libc::flock(guard.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Err(format!("An instance of this daemon is already running at {}", places.pipes.display()));
    }
    guard.set_len(0).and_then(|()| (&guard).write_all(format!("{}\n", std::process::id()).as_bytes())).map_err(own)?;
    let log = places.logs.join("control.log");
    let log = fs::File::options().create(true).append(true).open(&log);
    let log = log.map_err(|error| format!("cannot write a log in {}: {error}", places.logs.display()))?;
    let socket = places.pipes.join(MPS_SOCKET);
    let _ = fs::remove_file(&socket);
    let listener = Channel::listen(&socket)
        .and_then(|listener| fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).map(|()| listener))
        .map_err(|error| format!("cannot listen at {}: {error}", socket.display()))?;
    let records = Records { control: Control { multiuser, ..Control::default() }, ..Records::default() };
    let daemon = Arc::new(Daemon { records: Mutex::new(records), changed: Condvar::new(), log });
    let accepting = Arc::clone(&daemon);
    std::thread::spawn(move || {
        for (number, stream) in (1..).zip(listener.incoming()) {
            let daemon = Arc::clone(&accepting);
            let taken = match stream {
                Ok(_) if daemon.records().connections.len() >= MOST_CONNECTIONS => continue,
                Ok(stream) => Builder::new().spawn(move || attend(&daemon, number, stream)).is_ok(),
                Err(_) => false,
            };
            if !taken {
                std::thread::sleep(BREATH);
            }
        }
    });
    println!("{READY}");
    let _ = io::stdout().flush();
    let mut records = daemon.records();
    while !(records.control.quitting && records.control.clients() == 0 && records.unanswered == 0) {
        records = daemon.changed.wait(records).unwrap_or_else(PoisonError::into_inner);
    }
    for mut process in std::mem::take(&mut records.processes).into_values() {
        let _ = process.kill();
        let _ = process.wait();
    }
    daemon.note("Exit");
    let _ = fs::remove_file(&socket);
    let _ = fs::remove_file(&pid_file);
    Ok(())
}

/// Answers one connection until it ends.
fn attend(daemon: &Arc<Daemon>, number: u64, stream: UnixStream) {
    let channel = Channel::over(stream);
    let Ok(second) = channel.second() else { return };
    daemon.records().connections.insert(number, second);
    while let Ok(Some((request, _))) = channel.receive_with::<MpsRequest>() {
        let answered = match request {
            MpsRequest::Command { line } => {
                daemon.records().unanswered += 1;
                let answered = channel.send(&carry_out(daemon, &line));
                daemon.records().unanswered -= 1;
                daemon.changed.notify_all();
                answered
            }
            MpsRequest::Client { cards, threads } => channel.send(&admit(daemon, number, &channel, cards, threads)),
            MpsRequest::Faulted => {
                let mut records = daemon.records();
                let lost = records.control.faulted(number);
                daemon.note(&format!("Server is in FAULT: {} clients are lost", lost.len()));
                lost.iter().for_each(|connection| cut(&records, *connection));
                Ok(())
            }
        };
        if answered.is_err() {
            break;
        }
    }
    let mut records = daemon.records();
    records.connections.remove(&number);
    records.control.left(number);
    daemon.changed.notify_all();
}

/// Tells a client that it is none any more. It is remembered as one until it has gone.
fn cut(records: &Records, connection: u64) {
    if let Some(channel) = records.connections.get(&connection) {
        // SAFETY: plain numbers and a descriptor that the records keep open.
        unsafe { libc::shutdown(channel.as_fd().as_raw_fd(), libc::SHUT_WR) };
    }
}

fn admit(daemon: &Arc<Daemon>, number: u64, channel: &Channel, cards: Vec<String>, threads: Option<u32>) -> MpsReply {
    let Some(uid) = channel.peer_uid() else { return MpsReply::Refused { code: MPS_CONNECTION_FAILED } };
    let pid = channel.peer_pid();
    let mut records = daemon.records();
    loop {
        let client = Client { pid, cards: cards.clone(), lost: false };
        match records.control.admit(number, uid, client) {
            Admission::Welcome(server) => {
                daemon.note(&format!("User {uid}: client {pid} of server {server}"));
                let limits = &records.control.servers[&server].limits;
                let threads = threads.map_or(limits.threads, |asked| asked.min(limits.threads));
                let memory = limits.memory.iter().map(|(card, bytes)| (card.clone(), *bytes)).collect();
                return MpsReply::Welcome { server, threads, memory };
            }
            Admission::Refused(code) => return MpsReply::Refused { code },
            Admission::StartServer => {
                // That of a user who has left has had its turn.
                let idle: Vec<i32> = records.control.servers.keys().copied().collect();
                idle.into_iter().for_each(|pid| end_server(&mut records, pid));
                if let Err(error) = start_server(daemon, &mut records, uid) {
                    daemon.note(&format!("User {uid}: no server: {error}"));
                    return MpsReply::Refused { code: MPS_CONNECTION_FAILED };
                }
            }
            Admission::Wait => records = daemon.changed.wait(records).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

fn start_server(daemon: &Arc<Daemon>, records: &mut Records, uid: u32) -> io::Result<()> {
    let mut process = server::start(uid)?;
    let pid = process.id() as i32;
    let watching = Arc::clone(daemon);
    let watched = Builder::new().spawn(move || {
        if server::wait_for_end(pid) {
            watching.note(&format!("Server {pid} has ended"));
            end_server(&mut watching.records(), pid);
            watching.changed.notify_all();
        }
    });
    if let Err(error) = watched {
        let _ = process.kill();
        let _ = process.wait();
        return Err(error);
    }
    records.processes.insert(pid, process);
    records.control.server_started(pid, uid);
    Ok(())
}

/// Its clients are cut off.
fn end_server(records: &mut Records, pid: i32) {
    if let Some(server) = records.control.servers.remove(&pid) {
        server.clients.keys().for_each(|connection| cut(records, *connection));
    }
    if let Some(mut process) = records.processes.remove(&pid) {
        let _ = process.kill();
        let _ = process.wait();
    }
}

fn carry_out(daemon: &Arc<Daemon>, line: &str) -> MpsReply {
    let mut records = daemon.records();
    let deed = match command::run(&mut records.control, line) {
        Ok(deed) => deed,
        Err(why) => return MpsReply::Text { text: format!("{why}\n"), done: false },
    };
    let mut text = String::new();
    match deed {
        Deed::Print(said) => text = said,
        Deed::StartServer(uid) => {
            if let Err(error) = start_server(daemon, &mut records, uid) {
                return MpsReply::Text {
                    text: format!("cannot start a server for user {uid}: {error}\n"),
                    done: false,
                };
            }
        }
        Deed::EndServer(pid) => end_server(&mut records, pid),
        Deed::Cut(connection) => cut(&records, connection),
        Deed::Quit(patience) => {
            records.control.quitting = true;
            if let Some(seconds) = patience {
                let all_gone = |records: &mut Records| records.control.clients() > 0;
                let patience = Duration::from_secs(seconds);
                let waited = daemon.changed.wait_timeout_while(records, patience, all_gone);
                records = waited.unwrap_or_else(PoisonError::into_inner).0;
                let servers: Vec<i32> = records.control.servers.keys().copied().collect();
                servers.into_iter().for_each(|pid| end_server(&mut records, pid));
            }
        }
    }
    MpsReply::Text { text, done: true }
}
