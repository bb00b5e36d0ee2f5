//! `CUdevice_attribute`: what programs ask of a device. Numbers are those of cuda.h 13.5; limits are those of the CUDA
//! programming guide's table of technical specifications; clocks and sizes are those that public listings of `deviceQuery`
//! give for the products.

use crate::codes::{Code, Outcome};
use crate::init::cuda_version;
use crate::launch::{MOST_BLOCK, MOST_GRID, MOST_THREADS, SHARED_MEMORY};
use crate::multicast;
use crate::slots::Slot;

/// The last attribute in cuda.h, from each CUDA version on.
const LAST: [(i32, i32); 7] =
    [(12040, 134), (12050, 135), (12080, 143), (13000, 147), (13010, 148), (13030, 156), (13040, 161)];

/// Whether a driver of that CUDA version knows the attribute.
fn is_known(number: i32, cuda: i32) -> bool {
    let last = LAST.iter().rev().find(|(since, _)| *since <= cuda).map_or(0, |(_, last)| *last);
    (1..=last).contains(&number)
}

/// What differs from one compute capability to another.
struct Generation {
    clock_khz: i32,
    memory_clock_khz: i32,
    bus_bits: i32,
    cache_bytes: i32,
    shared_of_multiprocessor: i32,
}

fn generation(slot: &Slot) -> Generation {
    let (clock_khz, memory_clock_khz, bus_bits, cache_mib, shared_kib) = match slot.card.capability.0 {
        8 => (1_410_000, 1_215_000, 5120, 40, 164),
        9 => (1_980_000, 2_619_000, 5120, 50, 228),
        _ => (1_965_000, 3_996_000, 8192, 126, 228),
    };
    let (cache_bytes, shared_of_multiprocessor) = (cache_mib << 20, shared_kib << 10);
    Generation { clock_khz, memory_clock_khz, bus_bits, cache_bytes, shared_of_multiprocessor }
}

/// One attribute of a device. Those that are about what is not simulated (textures, graphs, memory of NUMA nodes) are 0.
pub fn attribute(slot: &Slot, number: i32) -> Outcome<i32> {
    let (major, minor) = slot.card.capability;
    let of = generation(slot);
    if !is_known(number, cuda_version()) {
        return Err(Code::INVALID_VALUE);
    }
    Ok(match number {
        1 => MOST_THREADS as i32,
        2..=4 => MOST_BLOCK[number as usize - 2] as i32,
        5..=7 => MOST_GRID[number as usize - 5] as i32,
        8 => SHARED_MEMORY as i32,
        // Constant memory.
        9 => 64 << 10,
        // Warp.
        10 => 32,
        // Pitch.
        11 => i32::MAX,
        // Registers of a block, of a multiprocessor.
        12 | 82 => 64 << 10,
        13 => of.clock_khz,
        // Alignments.
        14 | 30 => 512,
        51 => 32,
        16 => slot.multiprocessors() as i32,
        20 => slot.compute_mode as i32,
        33 => slot.card.pci.1 as i32,
        34 => slot.card.pci.2 as i32,
        50 => slot.card.pci.0 as i32,
        36 => of.memory_clock_khz,
        37 => of.bus_bits,
        38 => of.cache_bytes,
        // Threads and blocks of a multiprocessor.
        39 => 2048,
        106 => 32,
        // Copy engines.
        40 => 3,
        75 => major,
        76 => minor,
        81 => of.shared_of_multiprocessor,
        // Single to double precision.
        87 => 2,
        // Shared memory that a block may opt in for: 1 KiB less than all, which the driver keeps.
        97 => of.shared_of_multiprocessor - 1024,
        111 => 1024,
        // Copies beside kernels, mapped host memory, concurrent kernels, ECC, one address space, priorities, caches, managed
        // memory, preemption, registered host memory, cooperative launch, memory by handles, sharing it by descriptor, pools,
        // unified function pointers.
        15 | 19 | 31 | 32 | 41 | 78 | 79 | 80 | 83 | 90 | 91 | 95 | 99 | 102 | 103 | 115 | 129 => 1,
        120 => i32::from(major >= 9),
        132 => i32::from(multicast::can_join(slot)),
        133 => i32::from(slot.share.is_some()),
        // NUMA nodes: none known.
        131 | 134 => -1,
        // Only one memory domain.
        126 => 1,
        139 => slot.card.pci_ids.0 as i32,
        140 => slot.card.pci_ids.1 as i32,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_knows_the_attributes_of_its_time() {
        for (cuda, last) in [(12040, 134), (12070, 135), (12090, 143), (13000, 147), (13020, 148), (13050, 161)] {
            assert!(is_known(1, cuda) && is_known(last, cuda), "{cuda}");
            assert!(!is_known(0, cuda) && !is_known(last + 1, cuda), "{cuda}");
        }
    }
}
