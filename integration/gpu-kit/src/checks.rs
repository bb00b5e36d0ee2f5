//! Every check of the kit, in the order in which they run. A new one is added here.

use crate::check::{Check, Place};
use crate::{fidelity, machine, suite};

macro_rules! checks {
    ($($place:ident $limit:literal $name:expr, $what:literal $run:path;)*) => {
        /// All of them.
        pub const ALL: &[Check] =
            &[$(Check { name: $name, what: $what, limit_s: $limit, place: Place::$place, run: $run },)*];
    };
}

checks! {
    Machine 20 "device-nodes", "The nodes of the driver are there" machine::device_nodes;
    Machine 60 machine::DRIVER, "The driver answers, and has the checkpoint API" machine::driver;
    Machine 60 "kernels", "The kernels are compiled and compute what they must" fidelity::kernels::compute;
    Machine 30 "spin", "A kernel that spins takes its time" fidelity::kernels::spin;
    Machine 60 "states", "A process goes RUNNING, LOCKED, CHECKPOINTED, LOCKED, RUNNING and computes on" fidelity::states::in_order;
    Machine 60 "wrong-order", "Every other order is refused with 401 and changes nothing" fidelity::states::out_of_order;
    Machine 60 "lock-timeout", "A lock that waits in vain ends with 600 and leaves the process RUNNING" fidelity::states::lock_timeout;
    Machine 20 "no-cuda", "A process without CUDA, or none, is answered with 1" fidelity::states::without_cuda;
    Machine 30 "stopped", "A call on a stopped process hangs until it goes on" fidelity::states::stopped;
    Machine 60 "card-freed", "A checkpoint frees the card, and a restore takes as much again" fidelity::memory::card_freed;
    Machine 60 "host-copy", "The copy is memory of the process" fidelity::memory::host_copy;
    Machine 60 "files-closed", "After a checkpoint no file or mapping of the card is left" fidelity::memory::files_closed;
    Machine 90 "no-room", "A restore without room ends with 2, and the process is ruined: 304, 401" fidelity::memory::no_room;
    Machine 60 "map-identity", "A map of each card to itself restores" fidelity::maps::identity;
    Machine 60 "map-wrong", "A map with an unknown card is refused with 1, and nothing is lost" fidelity::maps::unknown;
    Machine 60 "map-short", "A map that misses a card is refused with 1" fidelity::maps::short;
    Machine 60 "map-other", "A process goes on on another card of the same model, at the same addresses" fidelity::maps::other;
    Machine 60 "managed", "A process with managed memory cannot be checkpointed" fidelity::memory::managed;
    Machine 60 "hungry", "A program that never stops allocating goes on at the limit" fidelity::memory::hungry;
    Machine 30 "mig-minors", "The driver numbers the MIG capability nodes as the simulation does" fidelity::mig::minors;
    Machine 60 "mig-tables", "The card's MIG profiles, sizes and places are those of the simulation" fidelity::mig::tables;
    Machine 120 "mig-places", "The driver chooses the places that the simulation chooses" fidelity::mig::places;
    Machine 60 "mig-device", "A process on a MIG device computes, and sees that device" fidelity::mig::device;
    Machine 60 "mig-checkpoint", "A checkpoint on a MIG device ends with 2, and the process goes on" fidelity::mig::checkpoint;
    Machine 60 "mps-clients", "Two processes are clients of one MPS server, and compute" fidelity::mps::clients;
    Machine 60 "mps-limit", "A client of MPS gets no memory beyond its limit" fidelity::mps::limit;
    Machine 60 "mps-checkpoint", "A checkpoint of an MPS client ends with 801, and the client goes on" fidelity::mps::checkpoint;
    Bed 20 "criu", "CRIU finds all that it needs in this kernel" suite::criu;
    Bed 20 "devices", "baton devices lists the cards that CUDA sees" suite::devices;
    Bed 60 "run", "A container counts on its card" suite::run;
    Bed 60 "save-goes-on", "A job is saved while it counts, and goes on" suite::save_goes_on;
    Bed 90 "counter", "A counter is saved, stopped, restored, and goes on" suite::counter;
    Bed 90 "train", "A training that is moved ends with the result known beforehand" suite::train;
    Bed 90 "family", "Several processes are moved together" suite::family;
    Bed 90 "cards", "A process with all cards is moved" suite::cards;
    Bed 90 "streams", "Streams in flight and pinned memory are moved" suite::streams;
    Bed 90 "python", "A Python program on NVIDIA's own bindings is moved" suite::python;
    Bed 120 "hold", "1 GiB that is zero, compressible and random arrives as it was" suite::hold;
    Bed 60 "save-refused", "A job that cannot be saved is told so, and goes on" suite::save_refused;
    Bed 120 "save-killed", "Who asks for a save may be killed at any moment: the job goes on, and is saved later" suite::save_killed;
    Bed 120 "restore-no-room", "A full card is seen before a restore is tried, which is good later" suite::restore_no_room;
    Bed 60 "mig-refused", "A MIG device, which is not supported yet, is refused by name" suite::mig_refused;
    Bed 60 "pause", "A paused container goes on" suite::pause;
}

/// The check of that name.
pub fn find(name: &str) -> Result<&'static Check, String> {
    ALL.iter()
        .find(|check| check.name == name)
        .ok_or_else(|| format!("no check is called {name:?}; ./run --help lists them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_name_of_its_own() {
        let mut names: Vec<&str> = ALL.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(find("nothing").is_err());
    }
}
