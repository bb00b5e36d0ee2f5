//! `CUdevice_attribute`: what programs ask of a device. Numbers are those of cuda.h 13.5; limits are those of the CUDA
//! programming guide's table of technical specifications; clocks and sizes are those that public listings of `deviceQuery`
//! give for the products.

use crate::codes::{Code, Outcome};
use crate::launch::{MOST_BLOCK, MOST_GRID, MOST_THREADS, SHARED_MEMORY};
use crate::slots::Slot;

/// One more than the newest attribute that is known.
const END: i32 = 162;

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
        // memory, preemption, registered host memory, cooperative launch, memory by handles, pools, unified function pointers.
        15 | 19 | 31 | 32 | 41 | 78 | 79 | 80 | 83 | 90 | 91 | 95 | 99 | 102 | 115 | 129 => 1,
        120 => i32::from(major >= 9),
        133 => i32::from(slot.share.is_some()),
        // NUMA nodes: none known.
        131 | 134 => -1,
        // Only one memory domain.
        126 => 1,
        139 => slot.card.pci_ids.0 as i32,
        140 => slot.card.pci_ids.1 as i32,
        number if (1..END).contains(&number) => 0,
        _ => return Err(Code::INVALID_VALUE),
    })
}
