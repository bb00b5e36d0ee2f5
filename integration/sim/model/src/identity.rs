//! The names of MIG devices.

use baton_sim_wire::InstanceId;
use uuid::Uuid;

/// `MIG-` and a UUID of version 5 made of the card's name and the device's numbers: the same slice of another card has
/// another name, and one that is made again on the same card has the same (open-gpu-kernel-modules, `gpu_uuid.c`, hashes
/// the chip, the card's serial number and these numbers).
pub fn mig_uuid(card: &str, instance: InstanceId) -> String {
    let name = format!("{card}/{}/{}", instance.gpu, instance.compute);
    format!("MIG-{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_slice_of_which_card() {
        let name = |card, gpu, compute| mig_uuid(card, InstanceId { gpu, compute });
        // Python: uuid.uuid5(uuid.NAMESPACE_OID, "GPU-1/1/0")
        assert_eq!(name("GPU-1", 1, 0), KNOWN);
        assert_ne!(name("GPU-1", 1, 0), name("GPU-2", 1, 0));
        assert_ne!(name("GPU-1", 1, 0), name("GPU-1", 1, 1));
    }

    const KNOWN: &str = "MIG-c2ecf26c-7a5f-52f8-bd32-fcad62dd4d7b";
}
