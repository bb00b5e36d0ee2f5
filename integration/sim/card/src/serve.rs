//! Plays the hardware: one thread per connection, one lock around the accounts.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_sim_wire::{Channel, DriverRoot, HARDWARE_FILE, RangeWanted};

use crate::connection::Connection;
use crate::hardware::{Client, ClientId, Hardware};
use crate::memory::CardMemory;
use crate::orders::Orders;
use crate::state_file::StateFile;
use crate::tickets::Tickets;
use crate::{capabilities, lock, spec};

/// More connections than this are turned away.
const MOST_CONNECTIONS: usize = 1024;
/// Its own, one more while its process has another save it, and one while it is told of faults.
const DESCRIPTORS_OF_A_CONNECTION: usize = 3;

/// How long it waits after a connection that could not be taken.
const BREATH: Duration = Duration::from_millis(10);

/// What every connection works on.
pub struct Machine {
    /// The driver root.
    pub root: PathBuf,
    /// What outlives this process.
    pub file: StateFile,
    /// What the machine is.
    pub facts: spec::Hardware,
    /// By minor number.
    pub memories: Vec<CardMemory>,
    state: Mutex<State>,
}

/// What changes.
pub struct State {
    /// Who holds what.
    pub hardware: Hardware,
    /// What tests have ordered.
    pub orders: Orders,
    /// Calls under way.
    pub tickets: Tickets,
    /// The number of the next connection.
    pub next_client: ClientId,
}

impl Machine {
    /// It, to itself.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens until the process is ended.
pub fn serve(root: &Path) -> Result<(), String> {
    let description = root.join(HARDWARE_FILE);
    spec::Hardware::read(&description)?;
    let guard = fs::File::open(&description).map_err(|e| e.to_string())?;
    if !lock::take(&guard) {
        return Err(format!("another process plays the hardware of {}, or lays it out", root.display()));
    }
    // Now that nobody lays it out again.
    let facts = spec::Hardware::read(&description)?;
    let most_connections = MOST_CONNECTIONS.min(descriptors() / DESCRIPTORS_OF_A_CONNECTION);
    let memories: io::Result<Vec<CardMemory>> = facts.cards.iter().map(CardMemory::of).collect();
    let memories = memories.map_err(|e| format!("cannot make card memory: {e}"))?;
    let file = StateFile::below(root);
    let mut hardware = Hardware::with(facts.cards.clone());
    file.load(&mut hardware.accounts)?;
    capabilities::show(root, &hardware.accounts).map_err(|e| format!("cannot show the capabilities: {e}"))?;
    tenants_in(&mut hardware, &facts)?;
    let orders = Orders::none().map_err(|e| format!("cannot make the page of faults: {e}"))?;
    let state = State { hardware, orders, tickets: Tickets::default(), next_client: TENANT + 1 };
    let socket = DriverRoot::at(root, facts.driver.as_str()).socket();
    let machine = Arc::new(Machine { root: root.to_owned(), file, facts, memories, state: Mutex::new(state) });
    let _ = fs::remove_file(&socket);
    let listener = Channel::listen(&socket)
        .and_then(|listener| fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).map(|()| listener))
        .map_err(|e| format!("cannot listen at {}: {e}", socket.display()))?;
    let mut out = io::stdout();
    let _ = writeln!(out, "ready: {} cards at {}", machine.facts.cards.len(), socket.display());
    let _ = out.flush();
    let connections = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, most likely: whoever waits is let in when somebody has left.
            std::thread::sleep(BREATH);
            continue;
        };
        if connections.fetch_add(1, Ordering::Relaxed) >= most_connections {
            connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (machine, connections_left) = (Arc::clone(&machine), Arc::clone(&connections));
        let started = std::thread::Builder::new().spawn(move || {
            Connection::over(&machine, stream).run();
            connections_left.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Asks for as many descriptors as the system lets us have, and tells how many that are: at first it is often 1024.
fn descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer names a rlimit that lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 0;
    }
    let all = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
    // SAFETY: the pointer names a rlimit that lives through the call.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const all) } == 0;
    usize::try_from(if raised { all.rlim_cur } else { limit.rlim_cur }).unwrap_or(usize::MAX)
}

/// Who holds memory for the tenants that are somebody else's: this process.
const TENANT: ClientId = 1;

fn tenants_in(hardware: &mut Hardware, facts: &spec::Hardware) -> Result<(), String> {
    let tenants: Vec<RangeWanted> = facts
        .cards
        .iter()
        .zip(&facts.tenants)
        .filter(|(_, bytes)| **bytes > 0)
        .map(|(card, bytes)| RangeWanted { device: card.uuid.clone(), bytes: *bytes })
        .collect();
    if !tenants.is_empty() {
        let tenant = Client { pid: std::process::id() as i32, name: "tenant".to_owned(), mps_server: None };
        hardware.clients.insert(TENANT, tenant);
    }
    hardware
        .claim(TENANT, &[], &tenants)
        .map(|_| ())
        .map_err(|refusal| format!("no room for a tenant: {}", refusal.why))
}
