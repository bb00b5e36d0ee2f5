//! What one card is set to, cut into and holds.

use std::collections::{BTreeMap, HashMap};

use baton_sim_model::Model;
use baton_sim_wire::{
    CONTEXT_BYTES, Card, CardUse, GpuInstance, InstanceId, ProcessUse, RESERVED_BYTES, Range, Settings,
};

use crate::hardware::{Client, ClientId};
use crate::memory::SPREAD;

/// An allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Whole pages.
    pub bytes: u64,
    /// Who took it; `None` once that one has let go and others still have it open.
    pub owner: Option<ClientId>,
    /// Who else has it open.
    pub importers: Vec<ClientId>,
    /// The MIG device that it was taken on.
    pub instance: Option<InstanceId>,
}

/// A card's account.
#[derive(Debug)]
pub struct Account {
    /// The card.
    pub card: Card,
    /// What administrators have set.
    pub settings: Settings,
    /// Its GPU instances, by number. Their `used` is reckoned when somebody asks.
    pub instances: Vec<GpuInstance>,
    /// Allocations by offset.
    pub ranges: BTreeMap<u64, Held>,
    /// How many contexts each process has, and where.
    pub contexts: HashMap<(ClientId, Option<InstanceId>), u32>,
}

impl Account {
    /// An empty card.
    pub fn of(card: Card) -> Account {
        Account {
            card,
            settings: Settings::default(),
            instances: Vec::new(),
            ranges: BTreeMap::new(),
            contexts: HashMap::new(),
        }
    }

    /// Its model.
    pub fn model(&self) -> Option<&'static Model> {
        Model::of_name(&self.card.model)
    }

    /// The MIG device of that name.
    pub fn instance(&self, uuid: &str) -> Option<InstanceId> {
        self.instances.iter().find_map(|gpu| {
            let found = gpu.compute.iter().find(|compute| compute.uuid == uuid)?;
            Some(InstanceId { gpu: gpu.id, compute: found.id })
        })
    }

    /// The clients that have a context or memory on it.
    pub fn users(&self) -> Vec<(ClientId, Option<InstanceId>)> {
        let owners = self.ranges.values().filter_map(|held| Some((held.owner?, held.instance)));
        let mut users: Vec<_> = owners.chain(self.contexts.keys().copied()).collect();
        users.sort_unstable_by_key(|(client, instance)| (*client, instance.map(|i| (i.gpu, i.compute))));
        users.dedup();
        users
    }

    fn held_by(&self, client: ClientId, instance: Option<InstanceId>) -> u64 {
        let contexts = u64::from(self.contexts.get(&(client, instance)).copied().unwrap_or(0));
        let ranges = self.ranges.values().filter(|held| held.owner == Some(client) && held.instance == instance);
        contexts * CONTEXT_BYTES + ranges.map(|held| held.bytes).sum::<u64>()
    }

    fn used_where(&self, counts: impl Fn(Option<InstanceId>) -> bool) -> u64 {
        let contexts: u64 =
            self.contexts.iter().filter(|((_, at), _)| counts(*at)).map(|(_, count)| u64::from(*count)).sum();
        let ranges = self.ranges.values().filter(|held| counts(held.instance));
        contexts * CONTEXT_BYTES + ranges.map(|held| held.bytes).sum::<u64>()
    }

    /// Bytes held by all.
    pub fn used(&self) -> u64 {
        self.used_where(|_| true)
    }

    /// Bytes to be had on the whole card.
    pub fn free(&self) -> u64 {
        self.card.memory.saturating_sub(RESERVED_BYTES).saturating_sub(self.used())
    }

    /// Bytes to be had there: all compute instances of a GPU instance share its memory.
    pub fn free_at(&self, instance: Option<InstanceId>) -> u64 {
        let Some(at) = instance else { return self.free() };
        let memory = self.instances.iter().find(|gpu| gpu.id == at.gpu).map_or(0, |gpu| gpu.memory);
        memory.saturating_sub(self.used_where(|other| other.is_some_and(|other| other.gpu == at.gpu)))
    }

    /// Enters an allocation. Never fails for lack of a gap: the address space is far larger than the memory.
    pub fn place(&mut self, client: ClientId, instance: Option<InstanceId>, bytes: u64) -> Option<Range> {
        let offset = self.gap(bytes)?;
        self.ranges.insert(offset, Held { bytes, owner: Some(client), importers: Vec::new(), instance });
        Some(Range { offset, bytes })
    }

    /// The first gap of that size.
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

    /// Has a client let go of ranges; those that nobody has any more come back, to be emptied.
    pub fn let_go(&mut self, mut which: impl FnMut(u64, &mut Held)) -> Vec<Range> {
        let mut gone = Vec::new();
        self.ranges.retain(|offset, held| {
            which(*offset, held);
            let kept = held.owner.is_some() || !held.importers.is_empty();
            if !kept {
                gone.push(Range { offset: *offset, bytes: held.bytes });
            }
            kept
        });
        gone
    }

    /// The instances with what is used of each.
    pub fn instances_now(&self) -> Vec<GpuInstance> {
        let used = |gpu: &GpuInstance| self.used_where(|at| at.is_some_and(|at| at.gpu == gpu.id));
        self.instances.iter().map(|gpu| GpuInstance { used: used(gpu), ..gpu.clone() }).collect()
    }

    /// The card and what holds it.
    pub fn usage(&self, clients: &HashMap<ClientId, Client>) -> CardUse {
        let mut processes: Vec<ProcessUse> = self
            .users()
            .into_iter()
            .filter_map(|(id, instance)| {
                let client = clients.get(&id)?;
                Some(ProcessUse {
                    pid: client.pid,
                    name: client.name.clone(),
                    bytes: self.held_by(id, instance),
                    instance,
                    mps_server: client.mps_server,
                })
            })
            .collect();
        processes.sort_by_key(|process| process.pid);
        CardUse {
            card: self.card.clone(),
            settings: self.settings,
            instances: self.instances_now(),
            used: self.used(),
            free: self.free(),
            processes,
        }
    }
}
