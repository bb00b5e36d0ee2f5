//! One connection to the hardware: every request is answered here, and what its process held is freed when it ends.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use baton_sim_wire::{Change, Channel, MOST_RANGES, Range, RangeWanted, Reply, Request};

use crate::hardware::{Client, ClientId, Hardware, Refusal};
use crate::serve::Machine;
use crate::{books, faults, known_calls, tickets, written_down};

/// The longest process name kept.
const LONGEST_NAME: usize = 64;

/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: i32 = 1;
/// `NVML_ERROR_NO_PERMISSION`.
const NO_PERMISSION: i32 = 4;
/// `CUDA_ERROR_OPERATING_SYSTEM`: the driver thread ended in the middle of a deed.
const OPERATING_SYSTEM: i32 = 304;
/// `CU_PROCESS_STATE_FAILED`.
const FAILED: u32 = 3;

/// A connection, and what it has begun.
pub struct Connection<'m> {
    machine: &'m Machine,
    channel: Channel,
    client: ClientId,
    /// The call this connection has made and that nobody has taken yet.
    issued: Option<u64>,
    /// The caller that waits for the deed this connection does, and the outcome so far.
    taken: Option<(Channel, Option<Reply>)>,
}

impl<'m> Connection<'m> {
    /// A new one.
    pub fn over(machine: &'m Machine, stream: UnixStream) -> Connection<'m> {
        let channel = Channel::over(stream);
        let mut state = machine.state();
        let client = state.next_client;
        state.next_client += 1;
        Connection { machine, channel, client, issued: None, taken: None }
    }

    /// Answers until the other side ends or talks nonsense, then cleans up after it.
    pub fn run(mut self) {
        while let Ok(Some((request, _))) = self.channel.receive_with::<Request>() {
            if self.answer(request).is_err() {
                break;
            }
        }
        self.release();
        let mut state = self.machine.state();
        state.hardware.clients.remove(&self.client);
        if let Some(ticket) = self.issued {
            state.tickets.void(ticket);
        }
        drop(state);
        let Connection { channel, taken, .. } = self;
        drop(channel);
        if let Some((caller, outcome)) = taken {
            let _ = caller.send(&outcome.unwrap_or(Reply::Outcome { code: OPERATING_SYSTEM, state: FAILED }));
        }
    }

    fn answer(&mut self, request: Request) -> io::Result<()> {
        let reply = match request {
            Request::Cards => Reply::Cards {
                driver: self.machine.facts.driver.clone(),
                cuda: self.machine.facts.cuda,
                cards: self.machine.state().hardware.uses(),
            },
            Request::Hello { name, mps_server } => return self.hello(name, mps_server),
            Request::Fault { call } => self.fault(&call),
            Request::Context { device } => done(self.claimed(&[device], &[]).map(|_| ())),
            Request::ContextGone { device } => done(self.machine.state().hardware.context_gone(self.client, &device)),
            Request::Allocate { wanted } => return self.allocate(&wanted),
            Request::Free { device, offset } => {
                let mut state = self.machine.state();
                let gone = state.hardware.free(self.client, &device, offset);
                self.emptied(gone)
            }
            Request::Memory { device } => return self.memory(&device),
            Request::Export { device, offset } => self.export(&device, offset)?,
            Request::Import { key } => return self.import(key),
            Request::ImportGone { key } => {
                let mut state = self.machine.state();
                let gone = state.hardware.import_gone(self.client, key);
                self.emptied(gone)
            }
            Request::Administer { card, change } => self.administer(&card, change),
            Request::Claim { contexts, ranges } => self.claim(&contexts, &ranges),
            Request::Release => {
                self.release();
                Reply::Done
            }
            Request::Command { deed } => {
                let ticket = self.machine.state().tickets.issue(deed, self.channel.second()?)?;
                if let Some(older) = self.issued.replace(ticket) {
                    self.machine.state().tickets.void(older);
                }
                Reply::Ticket { ticket }
            }
            Request::Take { ticket } => self.take(ticket),
            Request::Outcome { code, state } => {
                if let Some((_, outcome)) = &mut self.taken {
                    *outcome = Some(Reply::Outcome { code, state });
                }
                return Ok(());
            }
            Request::Order { key, value } => {
                done(self.order(&key, &value).map_err(|why| Refusal::new(INVALID_VALUE, why)))
            }
            Request::Books => {
                Reply::Books { ledger: books::check(&self.machine.state().hardware, &self.machine.memories) }
            }
        };
        self.channel.send(&reply)
    }

    fn hello(&self, name: String, mps_server: Option<i32>) -> io::Result<()> {
        let name = name.chars().take(LONGEST_NAME).collect();
        let client = Client { pid: self.channel.peer_pid(), name, mps_server };
        let mut state = self.machine.state();
        state.hardware.clients.insert(self.client, client);
        let page = state.orders.faults.page().try_clone_to_owned()?;
        drop(state);
        self.channel.send_with(&Reply::Done, &[page.as_fd()])
    }

    /// The caller's name as it gave it, or as its kernel has it.
    fn program(&self, hardware: &Hardware) -> String {
        match hardware.clients.get(&self.client) {
            Some(client) => client.name.clone(),
            None => {
                let name = fs::read_to_string(format!("/proc/{}/comm", self.channel.peer_pid()));
                name.unwrap_or_default().trim_end().to_owned()
            }
        }
    }

    fn fault(&self, call: &str) -> Reply {
        let mut state = self.machine.state();
        let program = self.program(&state.hardware);
        Reply::Fault { action: state.orders.faults.of_call(call, &program) }
    }

    fn order(&self, key: &str, value: &str) -> Result<(), String> {
        let call = if key == "fault" { faults::call_of(value) } else { None };
        if let Some(call) = call {
            known_calls::check(&self.machine.root, &call).map_err(|why| format!("{key}={value}: {why}"))?;
        }
        self.machine.state().orders.take(key, value)
    }

    fn administer(&self, card: &str, change: Change) -> Reply {
        if self.channel.peer_uid() != Some(0) {
            return Reply::Refused { code: NO_PERMISSION, why: "only root administers cards".to_owned() };
        }
        match written_down::change(self.machine, card, change) {
            Ok(Some(id)) => Reply::Instance { id },
            Ok(None) => Reply::Done,
            Err(refusal) => refused(refusal),
        }
    }

    fn export(&self, device: &str, offset: u64) -> io::Result<Reply> {
        let key = tickets::random()?;
        Ok(match self.machine.state().hardware.export(self.client, device, offset, key) {
            Ok(key) => Reply::Key { key },
            Err(refusal) => refused(refusal),
        })
    }

    fn import(&self, key: u64) -> io::Result<()> {
        let mut state = self.machine.state();
        if !state.hardware.clients.contains_key(&self.client) {
            return self.channel.send(&refused(Refusal::new(INVALID_VALUE, "no hello")));
        }
        match state.hardware.import(self.client, key) {
            Ok((index, range)) => {
                drop(state);
                self.channel.send_with(&Reply::Range { range }, &[self.machine.memories[index].descriptor()])
            }
            Err(refusal) => self.channel.send(&refused(refusal)),
        }
    }

    /// Only a process that has introduced itself may hold something.
    fn claimed(&self, contexts: &[String], wanted: &[RangeWanted]) -> Result<Vec<(usize, Range)>, Refusal> {
        let mut state = self.machine.state();
        if !state.hardware.clients.contains_key(&self.client) || wanted.len() > MOST_RANGES {
            return Err(Refusal { code: INVALID_VALUE, why: "no hello, or too many ranges".to_owned() });
        }
        let ranges = state.hardware.claim(self.client, contexts, wanted)?;
        drop(state);
        for (index, range) in &ranges {
            if let Err(error) = self.machine.memories[*index].fill(*range) {
                eprintln!("baton-sim-card: cannot fill {range:?}: {error}");
            }
        }
        Ok(ranges)
    }

    fn allocate(&self, wanted: &RangeWanted) -> io::Result<()> {
        match self.claimed(&[], std::slice::from_ref(wanted)).as_deref() {
            Ok([(index, range)]) => {
                let memory = self.machine.memories[*index].descriptor();
                self.channel.send_with(&Reply::Range { range: *range }, &[memory])
            }
            Ok(_) => {
                self.channel.send(&Reply::Refused { code: INVALID_VALUE, why: "no room in the address space".into() })
            }
            Err(refusal) => self.channel.send(&refused(refusal.clone())),
        }
    }

    fn claim(&self, contexts: &[String], wanted: &[RangeWanted]) -> Reply {
        match self.claimed(contexts, wanted) {
            Ok(ranges) => Reply::Ranges { ranges: ranges.into_iter().map(|(_, range)| range).collect() },
            Err(refusal) => refused(refusal),
        }
    }

    fn memory(&self, uuid: &str) -> io::Result<()> {
        let index = self.machine.state().hardware.device(uuid).map(|device| device.index);
        let descriptors: Vec<BorrowedFd<'_>> =
            index.iter().map(|index| self.machine.memories[*index].descriptor()).collect();
        match index {
            Ok(_) => self.channel.send_with(&Reply::Done, &descriptors),
            Err(refusal) => self.channel.send(&refused(refusal)),
        }
    }

    /// Empties what nobody has any more. Under the lock: nobody may get the range before.
    fn emptied(&self, gone: Result<Vec<(usize, Range)>, Refusal>) -> Reply {
        match gone {
            Ok(gone) => {
                self.punch(&gone);
                Reply::Done
            }
            Err(refusal) => refused(refusal),
        }
    }

    fn release(&self) {
        let mut state = self.machine.state();
        let gone = state.hardware.release(self.client);
        // Emptied under the lock: nobody may get the range before.
        self.punch(&gone);
    }

    fn punch(&self, ranges: &[(usize, Range)]) {
        for (index, range) in ranges {
            if let Err(error) = self.machine.memories[*index].punch(*range) {
                eprintln!("baton-sim-card: cannot empty {range:?}: {error}");
            }
        }
    }

    fn take(&mut self, ticket: u64) -> Reply {
        if self.taken.is_some() {
            return Reply::Refused { code: INVALID_VALUE, why: "one deed at a time".to_owned() };
        }
        let mut state = self.machine.state();
        let Some((deed, caller)) = state.tickets.take(ticket) else {
            return Reply::Refused { code: INVALID_VALUE, why: "nobody waits for that ticket".to_owned() };
        };
        let program = self.program(&state.hardware);
        let orders = state.orders.use_up(&deed, &program);
        self.taken = Some((caller, None));
        Reply::Job { deed, orders }
    }
}

fn done(result: Result<(), Refusal>) -> Reply {
    match result {
        Ok(()) => Reply::Done,
        Err(refusal) => refused(refusal),
    }
}

fn refused(refusal: Refusal) -> Reply {
    Reply::Refused { code: refusal.code, why: refusal.why }
}
