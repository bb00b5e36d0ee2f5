//! Who holds what of each card.

use std::collections::{BTreeMap, HashMap};

use baton_sim_wire::{
    CONTEXT_BYTES, Card, CardUse, MOST_RANGES, ProcessUse, RESERVED_BYTES, Range, RangeWanted, whole_pages,
};

use crate::memory::SPREAD;

/// Why something is refused, as a `CUresult` and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A `CUresult`.
    pub code: i32,
    /// For a person.
    pub why: String,
}

/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: i32 = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_INVALID_DEVICE`.
const INVALID_DEVICE: i32 = 101;

/// One connection of a process. Its number is never used again.
pub type ClientId = u64;

/// A process that holds cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// As the hardware sees it.
    pub pid: i32,
    /// As it calls itself.
    pub name: String,
}

/// An allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Whole pages.
    pub bytes: u64,
    /// Who holds it.
    pub client: ClientId,
}

/// A card's account.
#[derive(Debug)]
pub struct Account {
    /// The card.
    pub card: Card,
    /// Allocations by offset.
    pub ranges: BTreeMap<u64, Held>,
    /// How many contexts each process has.
    pub contexts: HashMap<ClientId, u32>,
}

impl Account {
    fn held_by(&self, client: ClientId) -> u64 {
        let contexts = u64::from(self.contexts.get(&client).copied().unwrap_or(0));
        contexts * CONTEXT_BYTES
            + self.ranges.values().filter(|held| held.client == client).map(|held| held.bytes).sum::<u64>()
    }

    /// Bytes held by all.
    pub fn used(&self) -> u64 {
        let contexts: u64 = self.contexts.values().map(|count| u64::from(*count)).sum();
        contexts * CONTEXT_BYTES + self.ranges.values().map(|held| held.bytes).sum::<u64>()
    }

    /// Bytes to be had.
    pub fn free(&self) -> u64 {
        self.card.memory.saturating_sub(RESERVED_BYTES).saturating_sub(self.used())
    }

    /// The first gap of that size. Never fails for lack of a gap: the address space is far larger than the memory.
    fn gap(&self, bytes: u64) -> Option<u64> {
        let mut start = 0;
        for (offset, held) in &self.ranges {
            if offset - start >= bytes {
                return Some(start);
            }
            start = offset + held.bytes;
        }
        (start.checked_add(bytes)? <= self.card.memory * SPREAD).then_some(start)
    }
}

/// All accounts of one machine.
#[derive(Debug, Default)]
pub struct Hardware {
    /// By minor number.
    pub accounts: Vec<Account>,
    /// Who is connected.
    pub clients: HashMap<ClientId, Client>,
}

impl Hardware {
    /// A machine whose cards are empty.
    pub fn with(cards: Vec<Card>) -> Hardware {
        let accounts =
            cards.into_iter().map(|card| Account { card, ranges: BTreeMap::new(), contexts: HashMap::new() }).collect();
        Hardware { accounts, clients: HashMap::new() }
    }

    /// The index of a card.
    pub fn index(&self, uuid: &str) -> Result<usize, Refusal> {
        self.accounts
            .iter()
            .position(|account| account.card.uuid == uuid)
            .ok_or_else(|| Refusal { code: INVALID_DEVICE, why: format!("this machine has no card {uuid:?}") })
    }

    /// Makes a context.
    pub fn context(&mut self, client: ClientId, uuid: &str) -> Result<(), Refusal> {
        self.claim(client, &[uuid.to_owned()], &[]).map(|_| ())
    }

    /// Destroys a context.
    pub fn context_gone(&mut self, client: ClientId, uuid: &str) -> Result<(), Refusal> {
        let index = self.index(uuid)?;
        let contexts = &mut self.accounts[index].contexts;
        match contexts.get_mut(&client) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                contexts.remove(&client);
            }
            None => return Err(Refusal { code: INVALID_VALUE, why: format!("no context on {uuid}") }),
        }
        Ok(())
    }

    /// Takes contexts and memory, all or nothing. The ranges come back in the order wanted, with the index of the card.
    pub fn claim(
        &mut self,
        client: ClientId,
        contexts: &[String],
        wanted: &[RangeWanted],
    ) -> Result<Vec<(usize, Range)>, Refusal> {
        let mut need: HashMap<usize, u64> = HashMap::new();
        for uuid in contexts {
            *need.entry(self.index(uuid)?).or_default() += CONTEXT_BYTES;
        }
        let mut ranges = Vec::with_capacity(wanted.len().min(MOST_RANGES));
        for want in wanted {
            let index = self.index(&want.card)?;
            let bytes = whole_pages(want.bytes)
                .filter(|bytes| *bytes > 0)
                .ok_or_else(|| Refusal { code: INVALID_VALUE, why: format!("cannot allocate {} bytes", want.bytes) })?;
            let sum = need.entry(index).or_default();
            *sum = sum.saturating_add(bytes);
            ranges.push((index, bytes));
        }
        let held: usize = self.accounts.iter().flat_map(|a| a.ranges.values()).filter(|h| h.client == client).count();
        if held + ranges.len() > MOST_RANGES {
            return Err(Refusal { code: OUT_OF_MEMORY, why: format!("more than {MOST_RANGES} allocations") });
        }
        for (index, bytes) in &need {
            let account = &self.accounts[*index];
            if account.free() < *bytes {
                let why = format!("{} has {} bytes free, {bytes} are wanted", account.card.uuid, account.free());
                return Err(Refusal { code: OUT_OF_MEMORY, why });
            }
        }
        for uuid in contexts {
            let index = self.index(uuid)?;
            *self.accounts[index].contexts.entry(client).or_default() += 1;
        }
        Ok(ranges.into_iter().filter_map(|(index, bytes)| Some((index, self.place(index, client, bytes)?))).collect())
    }

    fn place(&mut self, index: usize, client: ClientId, bytes: u64) -> Option<Range> {
        let account = &mut self.accounts[index];
        let offset = account.gap(bytes)?;
        account.ranges.insert(offset, Held { bytes, client });
        Some(Range { offset, bytes })
    }

    /// Gives one allocation back.
    pub fn free(&mut self, client: ClientId, uuid: &str, offset: u64) -> Result<(usize, Range), Refusal> {
        let index = self.index(uuid)?;
        let ranges = &mut self.accounts[index].ranges;
        match ranges.get(&offset).copied() {
            Some(held) if held.client == client => {
                ranges.remove(&offset);
                Ok((index, Range { offset, bytes: held.bytes }))
            }
            _ => Err(Refusal { code: INVALID_VALUE, why: format!("no allocation at {offset:#x} of {uuid}") }),
        }
    }

    /// Takes everything from a client. What it held comes back, to be emptied.
    pub fn release(&mut self, client: ClientId) -> Vec<(usize, Range)> {
        let mut gone = Vec::new();
        for (index, account) in self.accounts.iter_mut().enumerate() {
            account.contexts.remove(&client);
            account.ranges.retain(|offset, held| {
                if held.client == client {
                    gone.push((index, Range { offset: *offset, bytes: held.bytes }));
                }
                held.client != client
            });
        }
        gone
    }

    /// Each card and what holds it.
    pub fn uses(&self) -> Vec<CardUse> {
        self.accounts
            .iter()
            .map(|account| {
                let mut processes: Vec<ProcessUse> = self
                    .clients
                    .iter()
                    .map(|(id, client)| ProcessUse {
                        pid: client.pid,
                        name: client.name.clone(),
                        bytes: account.held_by(*id),
                    })
                    .filter(|process| process.bytes > 0)
                    .collect();
                processes.sort_by_key(|process| process.pid);
                CardUse { card: account.card.clone(), used: account.used(), free: account.free(), processes }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    const GIB: u64 = 1 << 30;

    fn machine() -> (Hardware, String, String) {
        let cards = spec::Hardware::from_spec("h100x2", "a", "580.95.05").expect("valid").cards;
        let (first, second) = (cards[0].uuid.clone(), cards[1].uuid.clone());
        (Hardware::with(cards), first, second)
    }

    fn want(card: &str, bytes: u64) -> RangeWanted {
        RangeWanted { card: card.to_owned(), bytes }
    }

    #[test]
    fn memory_is_counted_exactly_in_whole_pages() {
        let (mut hardware, first, _) = machine();
        hardware.context(1, &first).expect("room");
        hardware.claim(1, &[], &[want(&first, 5000)]).expect("room");
        assert_eq!(hardware.accounts[0].used(), (512 << 20) + 8192);
        assert_eq!(hardware.accounts[1].used(), 0);
        let gone = hardware.release(1);
        assert_eq!(gone, [(0, Range { offset: 0, bytes: 8192 })]);
        assert_eq!(hardware.accounts[0].used(), 0);
    }

    #[test]
    fn a_claim_is_all_or_nothing() {
        let (mut hardware, first, second) = machine();
        let refusal = hardware
            .claim(1, std::slice::from_ref(&first), &[want(&second, GIB), want(&first, 79 * GIB)])
            .expect_err("a context and 79 GiB do not fit");
        assert_eq!(refusal.code, OUT_OF_MEMORY);
        assert_eq!(hardware.accounts[0].used() + hardware.accounts[1].used(), 0);
    }

    #[test]
    fn ranges_never_overlap_and_gaps_are_used_again() {
        let (mut hardware, first, _) = machine();
        let ranges = hardware.claim(1, &[], &[want(&first, GIB), want(&first, GIB), want(&first, GIB)]).expect("room");
        assert_eq!(ranges.iter().map(|(_, range)| range.offset).collect::<Vec<_>>(), [0, GIB, 2 * GIB]);
        hardware.free(1, &first, GIB).expect("held");
        let again = hardware.claim(2, &[], &[want(&first, 2 * GIB), want(&first, GIB)]).expect("room");
        assert_eq!(again.iter().map(|(_, range)| range.offset).collect::<Vec<_>>(), [3 * GIB, GIB]);
    }

    #[test]
    fn nobody_frees_what_another_holds() {
        let (mut hardware, first, _) = machine();
        hardware.claim(1, &[], &[want(&first, GIB)]).expect("room");
        assert!(hardware.free(2, &first, 0).is_err());
        assert!(hardware.free(1, "GPU-unknown", 0).is_err());
        assert!(hardware.context_gone(1, &first).is_err());
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let (mut hardware, first, _) = machine();
        for bytes in [0, u64::MAX, u64::MAX - 4096, 1 << 62] {
            assert!(hardware.claim(1, &[], &[want(&first, bytes), want(&first, bytes)]).is_err(), "{bytes}");
        }
        assert_eq!(hardware.accounts[0].used(), 0);
    }
}
