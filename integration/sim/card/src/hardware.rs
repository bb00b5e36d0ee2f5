//! All cards of one machine, and who holds what of them.

use std::collections::HashMap;

use baton_sim_wire::{
    CONTEXT_BYTES, Card, CardUse, ComputeMode, InstanceId, MOST_RANGES, Range, RangeWanted, whole_pages,
};

use crate::account::{Account, Held};

/// Why something is refused, as a number and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A `CUresult`; an `nvmlReturn_t` where an administrator asked.
    pub code: i32,
    /// For a person.
    pub why: String,
}

impl Refusal {
    /// With that number and sentence.
    pub fn new(code: i32, why: impl Into<String>) -> Refusal {
        Refusal { code, why: why.into() }
    }
}

/// `CUDA_ERROR_INVALID_VALUE`.
pub(crate) const INVALID_VALUE: i32 = 1;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_DEVICE_UNAVAILABLE`.
const DEVICE_UNAVAILABLE: i32 = 46;
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
    /// The MPS server that it is a client of.
    pub mps_server: Option<i32>,
}

/// A card, or a MIG device of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// Which card.
    pub index: usize,
    /// Which MIG device of it.
    pub instance: Option<InstanceId>,
}

/// All accounts of one machine.
#[derive(Debug, Default)]
pub struct Hardware {
    /// By minor number.
    pub accounts: Vec<Account>,
    /// Who is connected.
    pub clients: HashMap<ClientId, Client>,
    /// Allocations that others may open, by key: the card and the offset.
    pub(crate) exported: HashMap<u64, (usize, u64)>,
}

impl Hardware {
    /// A machine whose cards are empty.
    pub fn with(cards: Vec<Card>) -> Hardware {
        let accounts = cards.into_iter().map(Account::of).collect();
        Hardware { accounts, clients: HashMap::new(), exported: HashMap::new() }
    }

    /// The index of a card.
    pub fn index(&self, uuid: &str) -> Result<usize, Refusal> {
        self.accounts
            .iter()
            .position(|account| account.card.uuid == uuid)
            .ok_or_else(|| Refusal::new(INVALID_DEVICE, format!("this machine has no card {uuid:?}")))
    }

    /// The card or MIG device of that name. A card that is cut cannot be used as a whole.
    pub fn device(&self, uuid: &str) -> Result<Device, Refusal> {
        let instances = self.accounts.iter().enumerate();
        let cut = instances.filter_map(|(index, account)| Some((index, account.instance(uuid)?))).next();
        if let Some((index, instance)) = cut {
            return Ok(Device { index, instance: Some(instance) });
        }
        let index = self.index(uuid)?;
        if self.accounts[index].settings.mig {
            return Err(Refusal::new(INVALID_DEVICE, format!("{uuid} is in MIG mode; use its MIG devices")));
        }
        Ok(Device { index, instance: None })
    }

    /// Destroys a context.
    pub fn context_gone(&mut self, client: ClientId, uuid: &str) -> Result<(), Refusal> {
        let device = self.device(uuid)?;
        let contexts = &mut self.accounts[device.index].contexts;
        match contexts.get_mut(&(client, device.instance)) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                contexts.remove(&(client, device.instance));
            }
            None => return Err(Refusal::new(INVALID_VALUE, format!("no context on {uuid}"))),
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
        let contexts: Vec<Device> = contexts.iter().map(|uuid| self.device(uuid)).collect::<Result<_, _>>()?;
        let mut need: HashMap<Device, u64> = HashMap::new();
        for device in &contexts {
            self.may_have_context(client, *device)?;
            *need.entry(*device).or_default() += CONTEXT_BYTES;
        }
        let mut ranges = Vec::with_capacity(wanted.len().min(MOST_RANGES));
        for want in wanted {
            let device = self.device(&want.device)?;
            let bytes = whole_pages(want.bytes)
                .filter(|bytes| *bytes > 0)
                .ok_or_else(|| Refusal::new(INVALID_VALUE, format!("cannot allocate {} bytes", want.bytes)))?;
            let sum = need.entry(device).or_default();
            *sum = sum.saturating_add(bytes);
            ranges.push((device, bytes));
        }
        let ours = |held: &&Held| held.owner == Some(client);
        let held = self.accounts.iter().flat_map(|account| account.ranges.values()).filter(ours).count();
        if held + ranges.len() > MOST_RANGES {
            return Err(Refusal::new(OUT_OF_MEMORY, format!("more than {MOST_RANGES} allocations")));
        }
        self.has_room(&need)?;
        for device in contexts {
            *self.accounts[device.index].contexts.entry((client, device.instance)).or_default() += 1;
        }
        let place = |(device, bytes): (Device, u64)| {
            Some((device.index, self.accounts[device.index].place(client, device.instance, bytes)?))
        };
        Ok(ranges.into_iter().filter_map(place).collect())
    }

    fn has_room(&self, need: &HashMap<Device, u64>) -> Result<(), Refusal> {
        // What compute instances of one GPU instance want comes out of the same memory.
        let mut by_memory: HashMap<(usize, Option<u32>), (Device, u64)> = HashMap::new();
        for (device, bytes) in need {
            let memory = (device.index, device.instance.map(|instance| instance.gpu));
            let sum = by_memory.entry(memory).or_insert((*device, 0));
            sum.1 = sum.1.saturating_add(*bytes);
        }
        for (device, bytes) in by_memory.into_values() {
            let account = &self.accounts[device.index];
            let free = account.free_at(device.instance);
            if free < bytes {
                let why = format!("{} has {free} bytes free, {bytes} are wanted", account.card.uuid);
                return Err(Refusal::new(OUT_OF_MEMORY, why));
            }
        }
        Ok(())
    }

    /// Whether the compute mode lets this client have a context there.
    fn may_have_context(&self, client: ClientId, device: Device) -> Result<(), Refusal> {
        let account = &self.accounts[device.index];
        let server = |id: &ClientId| self.clients.get(id).and_then(|client| client.mps_server);
        let stranger =
            |other: &ClientId| *other != client && (server(other).is_none() || server(other) != server(&client));
        let taken = || account.contexts.keys().any(|(other, at)| *at == device.instance && stranger(other));
        let why = match account.settings.compute_mode {
            ComputeMode::Default => return Ok(()),
            ComputeMode::ExclusiveProcess if !taken() => return Ok(()),
            ComputeMode::ExclusiveProcess => "belongs to one process, and another has it",
            ComputeMode::Prohibited => "lets nobody have a context",
        };
        Err(Refusal::new(DEVICE_UNAVAILABLE, format!("{} {why} (compute mode)", account.card.uuid)))
    }

    /// Gives one allocation back. The range comes back when nobody else has it open.
    pub fn free(&mut self, client: ClientId, uuid: &str, offset: u64) -> Result<Vec<(usize, Range)>, Refusal> {
        let index = self.card_of_own(client, uuid, offset)?;
        let gone = self.accounts[index].let_go(|at, held| {
            if at == offset {
                held.owner = None;
            }
        });
        Ok(gone.into_iter().map(|range| (index, range)).collect())
    }

    /// The card on which this client has taken the allocation at that place of that device.
    pub(crate) fn card_of_own(&self, client: ClientId, uuid: &str, offset: u64) -> Result<usize, Refusal> {
        let index = self.device(uuid)?.index;
        if self.accounts[index].ranges.get(&offset).is_none_or(|held| held.owner != Some(client)) {
            return Err(Refusal::new(INVALID_VALUE, format!("no allocation at {offset:#x} of {uuid}")));
        }
        Ok(index)
    }

    /// Takes everything from a client. What nobody has any more comes back, to be emptied.
    pub fn release(&mut self, client: ClientId) -> Vec<(usize, Range)> {
        let mut gone = Vec::new();
        for (index, account) in self.accounts.iter_mut().enumerate() {
            account.contexts.retain(|(holder, _), _| *holder != client);
            let ranges = account.let_go(|_, held| {
                held.owner = held.owner.filter(|owner| *owner != client);
                held.importers.retain(|importer| *importer != client);
            });
            gone.extend(ranges.into_iter().map(|range| (index, range)));
        }
        self.exported.retain(|_, (index, offset)| self.accounts[*index].ranges.contains_key(offset));
        gone
    }

    /// Each card and what holds it.
    pub fn uses(&self) -> Vec<CardUse> {
        self.accounts.iter().map(|account| account.usage(&self.clients)).collect()
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

    fn context(hardware: &mut Hardware, client: ClientId, uuid: &str) -> Result<(), Refusal> {
        hardware.claim(client, &[uuid.to_owned()], &[]).map(|_| ())
    }

    fn want(card: &str, bytes: u64) -> RangeWanted {
        RangeWanted { device: card.to_owned(), bytes }
    }

    #[test]
    fn memory_is_counted_exactly_in_whole_pages() {
        let (mut hardware, first, _) = machine();
        context(&mut hardware, 1, &first).expect("room");
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

    #[test]
    fn the_compute_mode_says_who_may_have_a_context() {
        let (mut hardware, first, _) = machine();
        let client = |pid, mps_server| Client { pid, name: String::new(), mps_server };
        for (id, server) in [(1, None), (2, None), (3, Some(9)), (4, Some(9)), (5, Some(8))] {
            hardware.clients.insert(id, client(id as i32, server));
        }
        let code = |result: Result<(), Refusal>| result.map_err(|refusal| refusal.code);
        hardware.accounts[0].settings.compute_mode = ComputeMode::ExclusiveProcess;
        assert_eq!(code(context(&mut hardware, 1, &first)), Ok(()));
        assert_eq!(code(context(&mut hardware, 1, &first)), Ok(()), "the same process");
        assert_eq!(code(context(&mut hardware, 2, &first)), Err(DEVICE_UNAVAILABLE));
        hardware.release(1);
        assert_eq!(code(context(&mut hardware, 3, &first)), Ok(()));
        assert_eq!(code(context(&mut hardware, 4, &first)), Ok(()), "a client of the same server");
        assert_eq!(code(context(&mut hardware, 5, &first)), Err(DEVICE_UNAVAILABLE), "a client of another");
        assert_eq!(code(context(&mut hardware, 2, &first)), Err(DEVICE_UNAVAILABLE), "none of a server");
        hardware.accounts[0].settings.compute_mode = ComputeMode::Prohibited;
        assert_eq!(code(context(&mut hardware, 3, &first)), Err(DEVICE_UNAVAILABLE));
    }
}
