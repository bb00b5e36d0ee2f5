//! Memory of cards and of MIG devices.

use baton_sim_wire::RESERVED_BYTES;

use crate::codes::{Code, Outcome};
use crate::handle::{Handle, Target};
use crate::layout::layout;
use crate::library::{Library, call};
use crate::mig_device;
use crate::permission;
use crate::pointer::{Place, Versioned};

/// `nvmlMemory_t`.
#[repr(C)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

layout!(Memory, 24: total 0, free 8, used 16);

/// `nvmlMemory_v2_t`.
#[repr(C)]
struct MemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

layout!(MemoryV2, 40: version 0, total 8, reserved 16, free 24, used 32);

/// `nvmlBAR1Memory_t`.
#[repr(C)]
struct Bar1Memory {
    total: u64,
    free: u64,
    used: u64,
}

layout!(Bar1Memory, 24: total 0, free 8, used 16);

/// In bytes.
struct Sizes {
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// Of a MIG device: its GPU instance's, which all its compute instances share. Of a card in MIG mode: only for those who
/// may see all of its instances.
fn sizes(library: &Library, device: Handle) -> Outcome<Sizes> {
    match device.target()? {
        Target::Card(_) => {
            let held = library.now(device)?.held;
            if held.settings.mig && !permission::sees_everything(library.root.path()) {
                return Err(Code::NO_PERMISSION);
            }
            Ok(Sizes { total: held.card.memory, reserved: RESERVED_BYTES, free: held.free, used: held.used })
        }
        Target::Mig(..) => {
            let gpu = mig_device::find(library, device)?.gpu;
            Ok(Sizes { total: gpu.memory, reserved: 0, free: gpu.memory.saturating_sub(gpu.used), used: gpu.used })
        }
    }
}

/// The first version counts what the driver keeps for itself as used.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo(device: Handle, memory: Place<Memory>) -> i32 {
    call("nvmlDeviceGetMemoryInfo", |library| {
        let Sizes { total, free, .. } = sizes(library, device)?;
        memory.give(Memory { total, free, used: total - free })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: Versioned) -> i32 {
    call("nvmlDeviceGetMemoryInfo_v2", |library| {
        let place = memory.must_be::<MemoryV2>(2)?;
        let Sizes { total, reserved, free, used } = sizes(library, device)?;
        place.give(MemoryV2 { version: memory.version()?, total, reserved, free, used })
    })
}

/// The window through which the processor reaches the card: large enough for all of its memory.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetBAR1MemoryInfo(device: Handle, memory: Place<Bar1Memory>) -> i32 {
    const USED: u64 = 1 << 20;
    call("nvmlDeviceGetBAR1MemoryInfo", |library| {
        let total = sizes(library, device)?.total.next_power_of_two();
        memory.give(Bar1Memory { total, free: total - USED, used: USED })
    })
}

/// Bits of the bus to the memory: HBM2, HBM3 and HBM3e on these cards.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryBusWidth(device: Handle, bits: Place<u32>) -> i32 {
    call("nvmlDeviceGetMemoryBusWidth", |library| {
        let card = library.card(device)?;
        bits.give(if card.model.ends_with("A30") { 3072 } else { 5120 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pointer::struct_version;

    #[test]
    fn a_versioned_struct_has_the_version_that_the_bindings_give() {
        // nvmlMemory_v2 of pynvml.py
        assert_eq!(struct_version::<MemoryV2>(2), 0x0200_0028);
    }
}
