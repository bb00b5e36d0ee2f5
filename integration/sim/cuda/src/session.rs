//! The process's connection to the hardware: what it holds of the cards it holds through this.

use std::os::fd::OwnedFd;

use baton_sim_wire::{Card, CardUse, Channel, DriverRoot, Range, RangeWanted, Reply, Request};

use crate::codes::{Code, Outcome};

/// An open connection.
#[derive(Debug)]
pub struct Session {
    channel: Channel,
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
    /// Connects and introduces the process.
    pub fn open(root: &DriverRoot) -> Outcome<Session> {
        let channel = Channel::connect(&root.socket()).map_err(|_| Code::NO_DEVICE)?;
        let session = Session { channel };
        let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default().trim().to_owned();
        session.done(&Request::Hello { name, mps_server: None })?;
        Ok(session)
    }

    fn ask(&self, request: &Request) -> Outcome<(Reply, Vec<OwnedFd>)> {
        match self.channel.ask(request) {
            Ok((Reply::Refused { code, .. }, _)) => Err(Code(code)),
            Ok(answer) => Ok(answer),
            Err(_) => Err(Code::UNKNOWN),
        }
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
    pub fn context(&self, card: &Card) -> Outcome {
        self.done(&Request::Context { device: card.uuid.clone() })
    }

    /// Destroys one.
    pub fn context_gone(&self, card: &Card) -> Outcome {
        self.done(&Request::ContextGone { device: card.uuid.clone() })
    }

    /// Takes memory; the card's whole memory comes along, to be mapped.
    pub fn allocate(&self, card: &Card, bytes: u64) -> Outcome<(Range, OwnedFd)> {
        let wanted = RangeWanted { device: card.uuid.clone(), bytes };
        match self.ask(&Request::Allocate { wanted })? {
            (Reply::Range { range }, mut memory) => memory.pop().map(|memory| (range, memory)).ok_or(Code::UNKNOWN),
            _ => Err(Code::UNKNOWN),
        }
    }

    /// Gives memory back.
    pub fn free(&self, card: &Card, offset: u64) -> Outcome {
        self.done(&Request::Free { device: card.uuid.clone(), offset })
    }

    /// A card's whole memory.
    pub fn memory(&self, card: &Card) -> Outcome<OwnedFd> {
        self.ask(&Request::Memory { device: card.uuid.clone() })?.1.pop().ok_or(Code::UNKNOWN)
    }

    /// Takes everything a restore needs, or nothing.
    pub fn claim(&self, contexts: Vec<String>, ranges: Vec<RangeWanted>) -> Outcome<Vec<Range>> {
        let wanted = ranges.len();
        match self.ask(&Request::Claim { contexts, ranges })?.0 {
            Reply::Ranges { ranges } if ranges.len() == wanted => Ok(ranges),
            _ => Err(Code::UNKNOWN),
        }
    }

    /// Gives everything back.
    pub fn release(&self) -> Outcome {
        self.done(&Request::Release)
    }
}
