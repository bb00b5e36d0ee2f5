//! The cards of this node.

use std::fmt;

use baton_config::Driver;
use baton_fault::{Code, Fault, Result};
use serde::{Deserialize, Serialize};

use crate::nvml::Session;
use crate::{CardRef, GpuUuid};

/// A card's compute capability: what code it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeCapability {
    /// Generation of the chip.
    pub major: u32,
    /// Step within it.
    pub minor: u32,
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// One whole card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// NVML's index, which may differ from boot to boot.
    pub index: u32,
    /// Its name for life.
    pub uuid: GpuUuid,
    /// The product name, for instance `NVIDIA H100 80GB HBM3`.
    pub model: String,
    /// What code it runs.
    pub compute_capability: ComputeCapability,
    /// All of its memory, in bytes.
    pub memory_total: u64,
    /// PCI address, for instance `00000000:18:00.0`.
    pub pci_bus_id: String,
    /// The N of `/dev/nvidiaN`.
    pub minor: u32,
    /// Whether it is cut into MIG instances.
    pub mig_enabled: bool,
}

/// The driver and the cards of this node, read once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// For instance `570.124.06`.
    pub driver_version: String,
    /// The newest CUDA that the driver speaks: 1000 × major + 10 × minor.
    pub cuda_version: u32,
    /// In the order of their indices.
    pub cards: Vec<Card>,
}

impl Inventory {
    /// Asks NVML.
    ///
    /// # Errors
    /// `DRIVER_MISSING` when there is no driver under the driver root, or it does not answer.
    pub fn read(driver: &Driver) -> Result<Inventory> {
        Session::open(driver)?.inventory()
    }

    /// The card of that name.
    ///
    /// # Errors
    /// `DEVICE_UNKNOWN`, saying what there is.
    pub fn card(&self, name: CardRef) -> Result<&Card> {
        let found = self.cards.iter().find(|card| match name {
            CardRef::Index(index) => card.index == index,
            CardRef::Uuid(uuid) => card.uuid == uuid,
        });
        found.ok_or_else(|| {
            let known: Vec<_> = self.cards.iter().map(|card| format!("{} ({})", card.index, card.uuid)).collect();
            let known = if known.is_empty() { "no card".to_owned() } else { known.join(", ") };
            Fault::new(Code::DeviceUnknown, format!("find GPU {name}"), format!("this node has {known}"))
                .advise("ask for one of those; `baton devices` lists them")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::inventory;

    #[test]
    fn cards_are_found_by_index_and_by_uuid() {
        let inventory = inventory();
        assert_eq!(inventory.card(CardRef::Index(1)).expect("card").minor, 3);
        let uuid = inventory.cards[1].uuid;
        assert_eq!(inventory.card(CardRef::Uuid(uuid)).expect("card").index, 1);
        let fault = inventory.card(CardRef::Index(2)).expect_err("no such card");
        assert_eq!(fault.code, Code::DeviceUnknown);
        assert!(fault.to_string().contains(&uuid.to_string()), "{fault}");
    }

    #[test]
    fn an_inventory_survives_json() {
        let inventory = inventory();
        let text = serde_json::to_string(&inventory).expect("json");
        assert_eq!(serde_json::from_str::<Inventory>(&text).expect("back"), inventory);
    }

    #[test]
    fn a_node_without_a_driver_says_so() {
        let empty = tempfile::tempdir().expect("empty");
        let fault = Inventory::read(&Driver { root: empty.path().into() }).expect_err("no driver");
        assert_eq!(fault.code, Code::DriverMissing);
        assert!(fault.to_string().contains("libnvidia-ml.so"), "{fault}");
    }

    #[test]
    fn a_library_that_is_none_is_a_missing_driver() {
        let fake = crate::testing::FakeDriver::new();
        let fault = Inventory::read(&fake.driver()).expect_err("not a real library");
        assert_eq!(fault.code, Code::DriverMissing);
    }
}
