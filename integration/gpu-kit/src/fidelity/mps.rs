//! MPS: what a client gets, and what the driver does when one is to be checkpointed.

use std::time::{Duration, Instant};

use baton_cuda::{Driver, code};

use super::{checkpoint_is_refused, timed};
use crate::asked::Asked;
use crate::check::{Notes, Stop, Verdict, demand};
use crate::mps::Daemon;
use crate::target::Target;

/// A client, which the server's list must name.
fn client(daemon: &Daemon, words: &[&str], more: &[(&str, &str)]) -> Result<Target, Stop> {
    let (name, value) = daemon.environment();
    let target = Target::start_with(words, &[&[(name, value.as_str())], more].concat())
        .map_err(|why| Stop::CannotRun(format!("{why}; the daemon's log: {}", daemon.log())))?;
    let mut clients = Vec::new();
    for server in daemon.ask("get_server_list")? {
        clients.extend(daemon.ask(&format!("get_client_list {server}"))?);
    }
    let pid = target.pid().to_string();
    demand(clients.contains(&pid), || format!("process {pid} is not among the clients {}", clients.join(", ")))?;
    Ok(target)
}

/// Two at once.
pub fn clients(notes: &mut Notes) -> Verdict {
    let daemon = Daemon::start()?;
    let (one, two) = (client(&daemon, &["hold", "8M"], &[])?, client(&daemon, &["hold", "8M"], &[])?);
    let servers = daemon.ask("get_server_list")?;
    demand(servers.len() == 1, || format!("{} servers for one user", servers.len()))?;
    let status = daemon.ask(&format!("get_server_status {}", servers[0]))?;
    notes.note(format!("server {}: {}", servers[0], status.join(" ")));
    one.goes_on()?;
    two.goes_on()?;
    Ok(())
}

/// What a client may take.
pub fn limit(notes: &mut Notes) -> Verdict {
    const LIMIT: u64 = 1 << 30;
    const DEADLINE: Duration = Duration::from_secs(40);
    let daemon = Daemon::start()?;
    let words = ["hungry", "--interval-ms", "0"];
    let target = client(&daemon, &words, &[("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G")])?;
    let end = Instant::now() + DEADLINE;
    loop {
        let now = target.status()?;
        demand(now.memory <= LIMIT, || format!("it has {} bytes", now.memory))?;
        if now.refused > 0 {
            notes.note(format!("refused with {} MiB of {}", now.memory >> 20, LIMIT >> 20));
            return demand(now.memory >= LIMIT / 2, || format!("it was refused with {} bytes", now.memory));
        }
        demand(Instant::now() < end, || format!("not refused with {} bytes", now.memory))?;
    }
}

/// A checkpoint of a client.
pub fn checkpoint(notes: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    let daemon = Daemon::start()?;
    let target = client(&daemon, &["hold", "8M"], &[])?;
    timed(notes, "lock", || driver.lock_process(target.pid(), super::LOCK_MS))?;
    checkpoint_is_refused(notes, driver, &target, code::NOT_SUPPORTED)
}
