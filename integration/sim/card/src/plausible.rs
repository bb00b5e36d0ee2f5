//! Whether a description of hardware can be: somebody may have edited it, or it may be another version's.

use std::collections::HashSet;

use baton_sim_model::Model;
use baton_sim_wire::{Card, MOST_CARDS, RESERVED_BYTES};

use crate::spec::{self, Hardware};

/// Nothing, or what cannot be about it.
///
/// # Errors
/// A sentence.
pub fn check(hardware: &Hardware) -> Result<(), String> {
    if spec::cuda_of(&hardware.driver)? != hardware.cuda {
        return Err(format!("driver {} does not speak CUDA {}", hardware.driver, hardware.cuda));
    }
    if hardware.cards.len() > MOST_CARDS {
        return Err(format!("there are {} cards, more than {MOST_CARDS}", hardware.cards.len()));
    }
    let (mut names, mut places) = (HashSet::new(), HashSet::new());
    for (index, card) in hardware.cards.iter().enumerate() {
        check_card(card, index as u32)?;
        if !names.insert(&card.uuid) {
            return Err(format!("two cards are called {}", card.uuid));
        }
        if !places.insert(card.pci) {
            return Err(format!("two cards are at {}", card.bus_id()));
        }
    }
    if !hardware.tenants.is_empty() && hardware.tenants.len() != hardware.cards.len() {
        return Err(format!("there are {} tenants of {} cards", hardware.tenants.len(), hardware.cards.len()));
    }
    let crowded = hardware.cards.iter().zip(&hardware.tenants).find(|(card, bytes)| !has_room(card.memory, **bytes));
    crowded.map_or(Ok(()), |(card, bytes)| Err(format!("{} has no room for a tenant of {bytes} bytes", card.uuid)))
}

/// Whether a tenant may hold that many of these bytes.
pub fn has_room(memory: u64, tenant: u64) -> bool {
    tenant <= memory.saturating_sub(RESERVED_BYTES)
}

fn check_card(card: &Card, index: u32) -> Result<(), String> {
    let model = Model::of_name(&card.model).ok_or_else(|| format!("no model is called {:?}", card.model))?;
    // Only its name and its place are a card's own.
    let known = Card { uuid: card.uuid.clone(), pci: card.pci, ..spec::card(model, "", index) };
    if *card != known {
        return Err(format!("card {index} is not like any {}: it is {card:?}, it can be {known:?}", model.name));
    }
    let groups: Vec<&str> = card.uuid.strip_prefix("GPU-").unwrap_or_default().split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let digits = groups.concat().bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if lengths != [8, 4, 4, 4, 12] || !digits {
        return Err(format!("{:?} is no UUID of a card", card.uuid));
    }
    let (domain, bus, device) = card.pci;
    if domain > 0xffff || bus > 0xff || device > 0x1f {
        return Err(format!("{} is no PCI address", card.bus_id()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_install_writes_can_be() {
        for spec in ["none", "h100x16", "a30,a100-40+20g,a100-80,h200,b200,vgpu-a100-10+9g"] {
            let hardware = Hardware::from_spec(spec, "a", "580.95.05").expect("valid");
            assert_eq!(check(&hardware), Ok(()), "{spec}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let edit = |change: fn(&mut Hardware)| {
            let mut hardware = Hardware::from_spec("h100x2", "a", "580.95.05").expect("valid");
            change(&mut hardware);
            check(&hardware).expect_err("it cannot be")
        };
        for (said, why) in [
            (edit(|h| h.cards[1].uuid = h.cards[0].uuid.clone()), "two cards are called GPU-"),
            (edit(|h| h.cards[1].pci = h.cards[0].pci), "two cards are at 0000:"),
            (edit(|h| h.cards[1].minor = 0), "card 1 is not like any"),
            (edit(|h| h.cards[0].memory = 1 << 63), "card 0 is not like any"),
            (edit(|h| h.cards[0].model = "NVIDIA Bogus".to_owned()), "no model is called"),
            (edit(|h| h.cards[0].uuid.clear()), "is no UUID"),
            (edit(|h| h.cards[0].uuid.push('\0')), "is no UUID"),
            (edit(|h| h.cards[0].pci.1 = 256), "is no PCI address"),
            (edit(|h| h.cards = vec![h.cards[0].clone(); 17]), "more than 16"),
            (edit(|h| h.tenants = vec![5; 3]), "3 tenants of 2 cards"),
            (edit(|h| h.tenants[1] = u64::MAX), "no room for a tenant"),
            (edit(|h| h.cuda = -1), "does not speak CUDA -1"),
            (edit(|h| h.driver = "../x".to_owned()), "not digits and dots"),
            (edit(|h| h.driver.clear()), "not digits and dots"),
        ] {
            assert!(said.contains(why), "{said}");
        }
    }
}
