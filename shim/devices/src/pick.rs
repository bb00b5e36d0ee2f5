//! Which cards of this node take the place of those of a checkpoint.

use baton_fault::{Code, Fault, Result};

use crate::{Card, CardUsage, ComputeCapability, GpuUuid, Inventory};

/// A card as a checkpoint remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCard {
    /// The card it ran on.
    pub uuid: GpuUuid,
    /// Product name.
    pub model: String,
    /// What code the chip runs.
    pub compute_capability: ComputeCapability,
    /// All of its memory, in bytes.
    pub memory_total: u64,
    /// What the saved processes held on it, in bytes.
    pub needed_bytes: u64,
}

/// One card of this node for each wanted one, in their order: the same card where it is here and has room, else
/// one of the same model with the most free memory.
///
/// # Errors
/// `RESTORE_MODEL` when no card here is of that model, `RESTORE_COUNT` when there are too few of them,
/// `RESTORE_MEMORY` when one is too small or too little of it is free; each with both values.
pub fn pick(inventory: &Inventory, usage: &[CardUsage], wanted: &[WantedCard]) -> Result<Vec<Card>> {
    let free = |card: &Card| usage.iter().find(|usage| usage.uuid == card.uuid).map_or(0, |usage| usage.free);
    let mut taken: Vec<Option<&Card>> = vec![None; wanted.len()];
    for (place, wish) in taken.iter_mut().zip(wanted) {
        let same = inventory.cards.iter().find(|card| card.uuid == wish.uuid);
        *place = same.filter(|card| fits(card, wish) && free(card) >= wish.needed_bytes);
    }
    // The largest first, so that a small one does not take the only place where a large one fits.
    let mut open: Vec<usize> = (0..wanted.len()).filter(|at| taken[*at].is_none()).collect();
    open.sort_by_key(|at| std::cmp::Reverse(wanted[*at].needed_bytes));
    for at in open {
        let wish = &wanted[at];
        let best = inventory
            .cards
            .iter()
            .filter(|card| fits(card, wish) && !taken.iter().flatten().any(|other| other.uuid == card.uuid))
            .max_by_key(|card| (free(card), std::cmp::Reverse(card.index)));
        match best {
            Some(card) if free(card) >= wish.needed_bytes => taken[at] = Some(card),
            best => return Err(refuse(inventory, wanted, wish, best.map(|card| (card, free(card))))),
        }
    }
    Ok(taken.into_iter().flatten().cloned().collect())
}

/// Whether the chip is the same: the driver restores on no other.
fn fits(card: &Card, wish: &WantedCard) -> bool {
    card.model == wish.model && card.compute_capability == wish.compute_capability && !card.mig_enabled
}

fn refuse(inventory: &Inventory, wanted: &[WantedCard], wish: &WantedCard, best: Option<(&Card, u64)>) -> Fault {
    let what = "find a GPU for the checkpoint";
    if let Some((card, free)) = best {
        let (why, advice) = if card.memory_total < wish.needed_bytes {
            (format!("card {} has {} bytes in all", card.index, card.memory_total), "restore it on a larger card")
        } else {
            (
                format!("card {} has {free} bytes free", card.index),
                "wait until other jobs leave the card, or restore it on another node",
            )
        };
        return Fault::new(
            Code::RestoreMemory,
            what,
            format!("it needs {} bytes of GPU memory, {why}", wish.needed_bytes),
        )
        .advise(advice);
    }
    let needed = wanted.iter().filter(|other| other.model == wish.model).count();
    let here = inventory.cards.iter().filter(|card| fits(card, wish)).count();
    if here > 0 {
        let why = format!("saved on {needed} × \"{}\", this node has {here}", wish.model);
        return Fault::new(Code::RestoreCount, what, why).advise("run it on a node with enough cards");
    }
    let mut models: Vec<_> = inventory
        .cards
        .iter()
        .map(|card| {
            let mig = if card.mig_enabled { ", cut into MIG instances" } else { "" };
            format!("\"{}\" (compute capability {}{mig})", card.model, card.compute_capability)
        })
        .collect();
    models.dedup();
    let models = if models.is_empty() { "no GPU".to_owned() } else { models.join(", ") };
    let why =
        format!("saved on \"{}\" (compute capability {}), this node has {models}", wish.model, wish.compute_capability);
    Fault::new(Code::RestoreModel, what, why).advise(format!("run it on a node with a {}", wish.model))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{card, inventory};

    fn used(card: &Card, used: u64) -> CardUsage {
        CardUsage { uuid: card.uuid, total: card.memory_total, free: card.memory_total - used, used, processes: vec![] }
    }

    fn wish(index: u32, needed_bytes: u64) -> WantedCard {
        let card = card(index, 0);
        WantedCard {
            uuid: card.uuid,
            model: card.model,
            compute_capability: card.compute_capability,
            memory_total: card.memory_total,
            needed_bytes,
        }
    }

    fn picked(used_0: u64, used_1: u64, wanted: &[WantedCard]) -> Result<Vec<u32>> {
        let inventory = inventory();
        let usage = [used(&inventory.cards[0], used_0), used(&inventory.cards[1], used_1)];
        pick(&inventory, &usage, wanted).map(|cards| cards.iter().map(|card| card.index).collect())
    }

    #[test]
    fn the_same_card_is_taken_where_it_has_room() {
        assert_eq!(picked(10 << 30, 0, &[wish(0, 20 << 30)]), Ok(vec![0]));
        assert_eq!(picked(70 << 30, 0, &[wish(0, 20 << 30)]), Ok(vec![1]));
        assert_eq!(picked(0, 0, &[wish(1, 1), wish(0, 1)]), Ok(vec![1, 0]));
    }

    #[test]
    fn else_the_one_with_the_most_free_memory() {
        assert_eq!(picked(2 << 30, 1 << 30, &[wish(7, 1)]), Ok(vec![1]));
        assert_eq!(picked(0, 0, &[wish(7, 1)]), Ok(vec![0]));
        assert_eq!(picked(40 << 30, 0, &[wish(7, 20 << 30), wish(8, 60 << 30)]), Ok(vec![0, 1]));
        assert_eq!(picked(0, 0, &[]), Ok(vec![]));
    }

    #[test]
    fn refusals_carry_both_values() {
        let refused = |used_1, wanted: &[WantedCard]| picked(0, used_1, wanted).expect_err("refused");
        let mut other = wish(7, 1);
        other.model = "NVIDIA A100-SXM4-40GB".into();
        let fault = refused(0, &[other]);
        assert_eq!(fault.code, Code::RestoreModel);
        assert!(fault.to_string().contains("A100") && fault.to_string().contains("H100"), "{fault}");
        let fault = refused(0, &[wish(7, 1), wish(8, 1), wish(9, 1)]);
        assert_eq!(fault.code, Code::RestoreCount);
        assert!(fault.to_string().contains("3 ×") && fault.to_string().contains("has 2"), "{fault}");
        let fault = refused(70 << 30, &[wish(0, 1), wish(1, 20 << 30)]);
        assert_eq!(fault.code, Code::RestoreMemory);
        let both = [(20u64 << 30).to_string(), (10u64 << 30).to_string()];
        assert!(both.iter().all(|value| fault.to_string().contains(value)), "{fault}");
        assert_eq!(refused(0, &[wish(7, 81 << 30)]).code, Code::RestoreMemory);
    }

    #[test]
    fn a_card_in_instances_does_not_count() {
        let mut inventory = inventory();
        inventory.cards.iter_mut().for_each(|card| card.mig_enabled = true);
        let fault = pick(&inventory, &[], &[wish(0, 0)]).expect_err("refused");
        assert_eq!(fault.code, Code::RestoreModel);
        assert!(fault.to_string().contains("MIG"), "{fault}");
    }
}
