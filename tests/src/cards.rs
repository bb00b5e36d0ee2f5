//! The cards of a node, as `baton devices --json` lists them.

use serde::Deserialize;

use crate::machine::Machine;

/// A card.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Card {
    /// Its UUID.
    pub uuid: String,
    /// The product's name.
    pub model: String,
    /// Where it is plugged in.
    pub pci_bus_id: String,
    /// The number of its device node.
    pub minor: u32,
    /// Bytes in use.
    pub used: u64,
    /// Who uses it.
    pub users: Vec<User>,
}

/// A process that has memory on a card.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct User {
    /// Its pid on the node.
    pub pid: u32,
    /// Bytes that it has there.
    pub bytes: Option<u64>,
    /// Its cgroup.
    pub cgroup: String,
}

#[derive(Deserialize)]
struct Listing {
    cards: Vec<Card>,
}

impl Machine {
    /// Its cards.
    ///
    /// # Panics
    /// When they cannot be listed.
    pub fn cards(&self) -> Vec<Card> {
        let text = self.ok(&["baton", "devices", "--json"]);
        let listing: Listing = serde_json::from_str(&text).unwrap_or_else(|err| panic!("{err} in {text}"));
        listing.cards
    }

    /// The first of them.
    ///
    /// # Panics
    /// When there is none.
    pub fn card(&self) -> Card {
        self.cards().swap_remove(0)
    }
}
