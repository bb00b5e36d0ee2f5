//! The process's connection to the hardware: what it holds of the cards it holds through this.

use std::os::fd::{AsFd, OwnedFd};

use baton_sim_wire::{CardUse, Channel, DriverRoot, FaultAction, Range, RangeWanted, Reply, Request};

use crate::codes::{Code, Outcome};
use crate::fault::FaultPage;
use crate::mapping::Mapping;

/// An open connection.
#[derive(Debug)]
pub struct Session {
    channel: Channel,
    /// Whether any fault has been ordered.
    pub faults: FaultPage,
}

/// What the machine is.
#[derive(Debug)]
pub struct Machine {
    /// CUDA version.
    pub cuda: i32,
    /// Its cards.
    pub cards: Vec<CardUse>,
}

impl Session {
    /// Connects and introduces the process, a client of an MPS server or none.
    pub fn open(root: &DriverRoot, mps_server: Option<i32>) -> Outcome<Session> {
        let channel = Channel::connect(&root.socket()).map_err(|_| Code::NO_DEVICE)?;
        let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default().trim().to_owned();
        let page = ask(&channel, &Request::Hello { name, mps_server })?.1.pop().ok_or(Code::UNKNOWN)?;
        let page = Mapping::of_page(page.as_fd()).map_err(|_| Code::OPERATING_SYSTEM)?;
        Ok(Session { channel, faults: FaultPage::of(page) })
    }

    fn ask(&self, request: &Request) -> Outcome<(Reply, Vec<OwnedFd>)> {
        ask(&self.channel, request)
    }

    fn done(&self, request: &Request) -> Outcome {
        self.ask(request).map(|_| ())
    }

    /// What the machine is and how full its cards are.
    pub fn machine(&self) -> Outcome<Machine> {
        match self.ask(&Request::Cards)?.0 {
            Reply::Cards { cuda, cards, .. } => Ok(Machine { cuda, cards }),
            _ => Err(Code::UNKNOWN),
        }
    }

    /// Makes a context.
    pub fn context(&self, device: &str) -> Outcome {
        self.done(&Request::Context { device: device.to_owned() })
    }

    /// Destroys one.
    pub fn context_gone(&self, device: &str) -> Outcome {
        self.done(&Request::ContextGone { device: device.to_owned() })
    }

    /// Takes memory; the card's whole memory comes along, to be mapped.
    pub fn allocate(&self, device: &str, bytes: u64) -> Outcome<(Range, OwnedFd)> {
        let wanted = RangeWanted { device: device.to_owned(), bytes };
        match self.ask(&Request::Allocate { wanted })? {
            (Reply::Range { range }, mut memory) => memory.pop().map(|memory| (range, memory)).ok_or(Code::UNKNOWN),
            _ => Err(Code::UNKNOWN),
        }
    }

    /// Gives memory back.
    pub fn free(&self, device: &str, offset: u64) -> Outcome {
        self.done(&Request::Free { device: device.to_owned(), offset })
    }

    /// A device's card's whole memory.
    pub fn memory(&self, device: &str) -> Outcome<OwnedFd> {
        self.ask(&Request::Memory { device: device.to_owned() })?.1.pop().ok_or(Code::UNKNOWN)
    }

    /// Takes everything a restore needs, or nothing.
    pub fn claim(&self, contexts: Vec<String>, ranges: Vec<RangeWanted>) -> Outcome<Vec<Range>> {
        let wanted = ranges.len();
        match self.ask(&Request::Claim { contexts, ranges })?.0 {
            Reply::Ranges { ranges } if ranges.len() == wanted => Ok(ranges),
            _ => Err(Code::UNKNOWN),
        }
    }

    /// What has been ordered for that call of this process.
    pub fn fault(&self, call: &str) -> Outcome<Option<FaultAction>> {
        match self.ask(&Request::Fault { call: call.to_owned() })?.0 {
            Reply::Fault { action } => Ok(action),
            _ => Err(Code::UNKNOWN),
        }
    }

    /// Lets other processes open an allocation; what names it comes back.
    pub fn export(&self, device: &str, offset: u64) -> Outcome<u64> {
        match self.ask(&Request::Export { device: device.to_owned(), offset })?.0 {
            Reply::Key { key } => Ok(key),
            _ => Err(Code::UNKNOWN),
        }
    }

    /// Opens an allocation of another process; the card's whole memory comes along.
    pub fn import(&self, key: u64) -> Outcome<(Range, OwnedFd)> {
        match self.ask(&Request::Import { key })? {
            (Reply::Range { range }, mut memory) => memory.pop().map(|memory| (range, memory)).ok_or(Code::UNKNOWN),
            _ => Err(Code::UNKNOWN),
        }
    }

    /// Lets go of one.
    pub fn import_gone(&self, key: u64) -> Outcome {
        self.done(&Request::ImportGone { key })
    }

    /// Gives everything back.
    pub fn release(&self) -> Outcome {
        self.done(&Request::Release)
    }
}

fn ask(channel: &Channel, request: &Request) -> Outcome<(Reply, Vec<OwnedFd>)> {
    match channel.ask(request) {
        Ok((Reply::Refused { code, .. }, _)) => Err(Code(code)),
        Ok(answer) => Ok(answer),
        Err(_) => Err(Code::UNKNOWN),
    }
}
