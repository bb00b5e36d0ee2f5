//! The cards that the process could open at `cuInit`, in order. A restore puts another card into a slot.

use baton_sim_wire::{Card, CardUse, DriverRoot, UuidPair};

use crate::codes::{Code, Outcome};

/// One card of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The card it is now.
    pub card: Card,
    /// The PCI address at `cuInit`; a migrated process goes on reporting it (NVIDIA/cuda-checkpoint#48).
    pub bus_id: String,
}

/// The cards whose nodes this process may open.
pub fn openable(root: &DriverRoot, cards: &[CardUse]) -> Vec<Slot> {
    if !root.control_is_open_to_us() {
        return Vec::new();
    }
    cards
        .iter()
        .filter(|held| root.card_is_open_to_us(held.card.minor))
        .map(|held| Slot { card: held.card.clone(), bus_id: held.card.bus_id() })
        .collect()
}

/// Which slots `CUDA_VISIBLE_DEVICES` shows, in its order: indices or UUID prefixes, cut at the first unknown one.
pub fn shown(slots: &[Slot], mask: Option<&str>) -> Vec<usize> {
    let Some(mask) = mask else { return (0..slots.len()).collect() };
    let mut shown = Vec::new();
    for word in mask.split(',').map(str::trim) {
        let found = match word.parse::<usize>() {
            Ok(index) => (index < slots.len()).then_some(index),
            Err(_) => slots.iter().position(|slot| word.starts_with("GPU-") && slot.card.uuid.starts_with(word)),
        };
        match found {
            Some(index) if !shown.contains(&index) => shown.push(index),
            _ => break,
        }
    }
    shown
}

/// The card for each slot after a restore. A map must name every slot exactly once; without one every card must be on
/// this machine. Cards must be of the same model, each used once.
pub fn destinations<'c>(slots: &[Slot], pairs: &[UuidPair], cards: &'c [CardUse]) -> Outcome<Vec<&'c Card>> {
    if !pairs.is_empty() && pairs.len() != slots.len() {
        return Err(Code::INVALID_VALUE);
    }
    let mut chosen: Vec<&Card> = Vec::with_capacity(slots.len());
    for slot in slots {
        let old = slot.card.uuid_bytes();
        let new = match pairs {
            [] => old,
            pairs => pairs.iter().find(|pair| pair.old == old).ok_or(Code::INVALID_VALUE)?.new,
        };
        let card =
            cards.iter().map(|held| &held.card).find(|card| card.uuid_bytes() == new).ok_or(Code::INVALID_VALUE)?;
        if card.model != slot.card.model || chosen.contains(&card) {
            return Err(Code::INVALID_VALUE);
        }
        chosen.push(card);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_sim_wire::Settings;

    fn card(number: u8, model: &str) -> CardUse {
        let card = Card {
            uuid: format!("GPU-000000{number:02x}-0000-0000-0000-000000000000"),
            minor: u32::from(number),
            model: model.to_owned(),
            capability: (9, 0),
            memory: 0,
            pci: (0, u32::from(number), 0),
            pci_ids: (0, 0),
            guest: false,
        };
        CardUse { card, settings: Settings::default(), instances: Vec::new(), used: 0, free: 0, processes: Vec::new() }
    }

    fn slot(number: u8) -> Slot {
        let card = card(number, "H100").card;
        Slot { bus_id: card.bus_id(), card }
    }

    fn pair(old: u8, new: u8) -> UuidPair {
        let bytes = |number| card(number, "").card.uuid_bytes();
        UuidPair { old: bytes(old), new: bytes(new) }
    }

    fn minors(outcome: Outcome<Vec<&Card>>) -> Outcome<Vec<u32>> {
        outcome.map(|cards| cards.iter().map(|card| card.minor).collect())
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
    fn a_mask_selects_and_orders() {
        let slots = [slot(1), slot(2), slot(3)];
        assert_eq!(shown(&slots, None), [0, 1, 2]);
        assert_eq!(shown(&slots, Some("2,0")), [2, 0]);
        assert_eq!(shown(&slots, Some("GPU-00000002")), [1]);
        assert_eq!(shown(&slots, Some("0,7,1")), [0]);
        assert!(shown(&slots, Some("")).is_empty());
    }
}
