//! The devices that the process could open at `cuInit`, in order. A restore puts another device into a slot.

use baton_sim_model::Model;
use baton_sim_wire::{Card, CardUse, DriverRoot, RESERVED_BYTES, UuidPair};

use crate::codes::{Code, Outcome};
use crate::mig::{self, MigDevice};

/// One device of the process: a card, or a MIG device of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The card it is now.
    pub card: Card,
    /// The part of it, if it is cut.
    pub instance: Option<MigDevice>,
    /// The PCI address at `cuInit`; a migrated process goes on reporting it (NVIDIA/cuda-checkpoint#48).
    pub bus_id: String,
    /// The compute mode at `cuInit`, as NVML numbers it.
    pub compute_mode: u32,
    /// Percent of its multiprocessors that an MPS server lets the process have.
    pub share: Option<u32>,
}

impl Slot {
    fn of(held: &CardUse, instance: Option<MigDevice>) -> Slot {
        let compute_mode = held.settings.compute_mode.number();
        Slot { card: held.card.clone(), instance, bus_id: held.card.bus_id(), compute_mode, share: None }
    }

    /// What the hardware calls it: `GPU-…` or `MIG-…`.
    pub fn device(&self) -> &str {
        self.instance.as_ref().map_or(&self.card.uuid, |instance| &instance.uuid)
    }

    /// The 16 bytes of its own UUID.
    pub fn uuid(&self) -> [u8; 16] {
        self.instance.as_ref().map_or_else(|| self.card.uuid_bytes(), |instance| bytes_of(&instance.uuid))
    }

    /// Product name, with the profile of a MIG device.
    pub fn name(&self) -> String {
        match &self.instance {
            Some(instance) => format!("{} {}", self.card.model, instance.profile),
            None => self.card.model.clone(),
        }
    }

    /// All memory that programs may have, in bytes.
    pub fn memory(&self) -> u64 {
        self.instance.as_ref().map_or(self.card.memory - RESERVED_BYTES, |instance| instance.memory)
    }

    /// Its multiprocessors.
    pub fn multiprocessors(&self) -> u32 {
        let whole = || Model::of_name(&self.card.model).map_or(1, |model| model.multiprocessors);
        let all = self.instance.as_ref().map_or_else(whole, |instance| instance.multiprocessors);
        self.share.map_or(all, |percent| (all * percent / 100).max(1))
    }

    /// Bytes that are still to be had of it.
    pub fn room(&self, cards: &[CardUse]) -> Outcome<u64> {
        let held = cards.iter().find(|held| held.card.uuid == self.card.uuid).ok_or(Code::INVALID_DEVICE)?;
        let Some(own) = &self.instance else { return Ok(held.free) };
        let gpu = held.instances.iter().find(|gpu| gpu.id == own.id.gpu).ok_or(Code::INVALID_DEVICE)?;
        Ok(gpu.memory.saturating_sub(gpu.used))
    }

    /// Whether work that ran on `self` runs on `other`: the same product, and the same part of it.
    fn is_like(&self, other: &Slot) -> bool {
        let profile = |slot: &Slot| slot.instance.as_ref().map(|instance| instance.profile.clone());
        self.card.model == other.card.model && profile(self) == profile(other)
    }

    /// Whether this process may open its nodes.
    pub fn is_open_to_us(&self, root: &DriverRoot) -> bool {
        let minor = self.card.minor;
        let part = |instance: &MigDevice| mig::is_open_to_us(root, minor, instance.id);
        root.card_is_open_to_us(minor) && self.instance.as_ref().is_none_or(part)
    }
}

/// The 16 bytes of a UUID behind a prefix of four letters.
fn bytes_of(uuid: &str) -> [u8; 16] {
    let digits: String = uuid.chars().skip(4).filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

/// All devices of the machine: a card that is cut is its MIG devices.
fn devices(cards: &[CardUse]) -> Vec<Slot> {
    let of_card = |held: &CardUse| {
        if held.settings.mig {
            mig::devices_of(held).into_iter().map(|instance| Slot::of(held, Some(instance))).collect()
        } else {
            vec![Slot::of(held, None)]
        }
    };
    cards.iter().flat_map(of_card).collect()
}

/// The devices whose nodes this process may open. CUDA shows a process one MIG device, the one that the mask names or the
/// first, and no card beside it.
pub fn openable(root: &DriverRoot, cards: &[CardUse], mask: Option<&str>) -> Vec<Slot> {
    if !root.control_is_open_to_us() {
        return Vec::new();
    }
    let open = devices(cards).into_iter().filter(|slot| slot.is_open_to_us(root)).collect();
    one_part_or_whole_cards(open, mask)
}

fn one_part_or_whole_cards(open: Vec<Slot>, mask: Option<&str>) -> Vec<Slot> {
    let first_word = mask.and_then(|mask| mask.split(',').next()).map(str::trim);
    let (mut parts, whole): (Vec<Slot>, Vec<Slot>) = open.into_iter().partition(|slot| slot.instance.is_some());
    match first_word {
        Some(word) if word.starts_with("MIG-") => parts.retain(|slot| slot.is_named(word)),
        Some(word) if word.starts_with("GPU-") => parts.clear(),
        _ => {}
    }
    if parts.is_empty() {
        return whole;
    }
    parts.truncate(1);
    parts
}

impl Slot {
    fn is_named(&self, word: &str) -> bool {
        match &self.instance {
            Some(instance) => instance.is_named(word, &self.card.uuid),
            None => word.starts_with("GPU-") && self.card.uuid.starts_with(word),
        }
    }
}

/// Which slots `CUDA_VISIBLE_DEVICES` shows, in its order: indices or UUID prefixes, cut at the first unknown one.
pub fn shown(slots: &[Slot], mask: Option<&str>) -> Vec<usize> {
    let Some(mask) = mask else { return (0..slots.len()).collect() };
    let mut shown = Vec::new();
    for word in mask.split(',').map(str::trim) {
        let found = match word.parse::<usize>() {
            Ok(index) => (index < slots.len()).then_some(index),
            Err(_) => slots.iter().position(|slot| slot.is_named(word)),
        };
        match found {
            Some(index) if !shown.contains(&index) => shown.push(index),
            _ => break,
        }
    }
    shown
}

/// The device for each slot after a restore. A map must name every slot exactly once; without one every device must be on
/// this machine. Each must be like the one before, and is used once.
pub fn destinations(slots: &[Slot], pairs: &[UuidPair], cards: &[CardUse]) -> Outcome<Vec<Slot>> {
    if !pairs.is_empty() && pairs.len() != slots.len() {
        return Err(Code::INVALID_VALUE);
    }
    let there = devices(cards);
    let mut chosen: Vec<Slot> = Vec::with_capacity(slots.len());
    for slot in slots {
        let old = slot.uuid();
        let new = match pairs {
            [] => old,
            pairs => pairs.iter().find(|pair| pair.old == old).ok_or(Code::INVALID_VALUE)?.new,
        };
        let found = there.iter().find(|device| device.uuid() == new).ok_or(Code::INVALID_VALUE)?;
        if !slot.is_like(found) || chosen.iter().any(|other| other.uuid() == new) {
            return Err(Code::INVALID_VALUE);
        }
        // The PCI address stays the old one.
        chosen.push(Slot { bus_id: slot.bus_id.clone(), share: slot.share, ..found.clone() });
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_sim_wire::{ComputeInstance, GpuInstance, Placement, Settings};

    fn card(number: u8, model: &str) -> CardUse {
        let card = Card {
            uuid: format!("GPU-000000{number:02x}-0000-0000-0000-000000000000"),
            minor: u32::from(number),
            model: model.to_owned(),
            capability: (9, 0),
            memory: 80 << 30,
            pci: (0, u32::from(number), 0),
            pci_ids: (0, 0),
            guest: false,
        };
        CardUse { card, settings: Settings::default(), instances: Vec::new(), used: 0, free: 0, processes: Vec::new() }
    }

    /// Cut into GPU instances of these profiles, each whole.
    fn cut(number: u8, profiles: &[u32]) -> CardUse {
        let mut held = card(number, "NVIDIA A100-SXM4-40GB");
        held.settings.mig = true;
        let instance = |(index, profile): (usize, &u32)| {
            let placement = Placement { start: 0, size: 1 };
            let uuid = format!("MIG-{number:02x}{index:02x}{profile:02x}00-0000-0000-0000-000000000000");
            // Compute profiles: 0 is one slice, 2 is three.
            let kind = if *profile == 2 { 2 } else { 0 };
            let compute = vec![ComputeInstance { id: 0, profile: kind, placement, uuid }];
            GpuInstance { id: 7 + index as u32, profile: *profile, placement, memory: 5 << 30, used: 1 << 30, compute }
        };
        held.instances = profiles.iter().enumerate().map(instance).collect();
        held
    }

    fn slot(number: u8) -> Slot {
        Slot::of(&card(number, "H100"), None)
    }

    fn pair(old: u8, new: u8) -> UuidPair {
        let bytes = |number| card(number, "").card.uuid_bytes();
        UuidPair { old: bytes(old), new: bytes(new) }
    }

    fn minors(outcome: Outcome<Vec<Slot>>) -> Outcome<Vec<u32>> {
        outcome.map(|slots| slots.iter().map(|slot| slot.card.minor).collect())
    }

    #[test]
    fn a_map_must_list_every_card_once() {
        let machine = [card(1, "H100"), card(2, "H100"), card(3, "H100"), card(4, "A100")];
        let slots = [slot(1), slot(2)];
        assert_eq!(minors(destinations(&slots, &[pair(1, 2), pair(2, 3)], &machine)), Ok(vec![2, 3]));
        assert_eq!(minors(destinations(&slots, &[pair(2, 1), pair(1, 2)], &machine)), Ok(vec![2, 1]));
        for wrong in [
            vec![pair(1, 2)],
            vec![pair(1, 2), pair(3, 1)],
            vec![pair(1, 2), pair(2, 2)],
            vec![pair(1, 1), pair(2, 4)],
            vec![pair(1, 1), pair(2, 9)],
            vec![pair(1, 1), pair(2, 2), pair(3, 3)],
        ] {
            assert_eq!(minors(destinations(&slots, &wrong, &machine)), Err(Code(1)), "{wrong:?}");
        }
    }

    #[test]
    fn without_a_map_the_same_cards_must_be_there() {
        let slots = [slot(1)];
        assert_eq!(minors(destinations(&slots, &[], &[card(1, "H100")])), Ok(vec![1]));
        assert_eq!(minors(destinations(&slots, &[], &[card(2, "H100")])), Err(Code(1)));
    }

    #[test]
    fn the_pci_address_stays_the_old_one() {
        let moved = destinations(&[slot(1)], &[pair(1, 2)], &[card(1, "H100"), card(2, "H100")]).expect("possible");
        assert_eq!((moved[0].bus_id.as_str(), moved[0].card.minor), ("0000:01:00.0", 2));
    }

    #[test]
    fn a_mask_selects_and_orders() {
        let slots = [slot(1), slot(2), slot(3)];
        assert_eq!(shown(&slots, None), [0, 1, 2]);
        assert_eq!(shown(&slots, Some("2,0")), [2, 0]);
        assert_eq!(shown(&slots, Some("GPU-00000002")), [1]);
        assert_eq!(shown(&slots, Some("0,7,1")), [0]);
        assert!(shown(&slots, Some("")).is_empty());
    }

    #[test]
    fn a_process_has_one_part_of_one_card_or_whole_cards() {
        let open = || devices(&[card(1, "H100"), cut(2, &[0, 2])]);
        let names = |mask| {
            one_part_or_whole_cards(open(), mask).iter().map(|slot| slot.device().to_owned()).collect::<Vec<_>>()
        };
        let first = "MIG-02000000-0000-0000-0000-000000000000";
        let second = "MIG-02010200-0000-0000-0000-000000000000";
        let whole = "GPU-00000001-0000-0000-0000-000000000000";
        assert_eq!(names(None), [first]);
        assert_eq!(names(Some("0")), [first]);
        assert_eq!(names(Some(second)), [second]);
        assert_eq!(names(Some("MIG-GPU-00000002-0000-0000-0000-000000000000/8/0,MIG-0200")), [second]);
        assert_eq!(names(Some("GPU-00000001")), [whole]);
    }

    #[test]
    fn a_part_has_its_own_name_size_and_share() {
        let machine = [cut(2, &[0, 2])];
        let slots = devices(&machine);
        assert_eq!(slots[0].name(), "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
        assert_eq!(slots[1].name(), "NVIDIA A100-SXM4-40GB MIG 3g.20gb");
        assert_eq!((slots[0].multiprocessors(), slots[1].multiprocessors()), (14, 42));
        assert_eq!((slots[0].memory(), slots[0].room(&machine)), (5 << 30, Ok(4 << 30)));
        assert_eq!(slots[1].uuid()[..3], [2, 1, 2]);
    }

    #[test]
    fn a_part_moves_to_a_part_of_the_same_profile_only() {
        let machine = [cut(2, &[0, 2, 0])];
        let slots = devices(&machine);
        let map = |from: usize, to: usize| UuidPair { old: slots[from].uuid(), new: slots[to].uuid() };
        assert!(destinations(&slots[..1], &[map(0, 2)], &machine).is_ok());
        assert_eq!(destinations(&slots[..1], &[map(0, 1)], &machine), Err(Code(1)));
    }
}
