//! How cards and processors lie to each other: all on one node of memory, each behind a bridge of its own, none reaching
//! another directly.

use crate::codes::{Code, Outcome};
use crate::handle::{Handle, Target};
use crate::library::call;
use crate::pointer::{List, Place};

/// `NVML_TOPOLOGY_INTERNAL`: the same board.
const INTERNAL: u32 = 0;
/// `NVML_TOPOLOGY_NODE`: the same node of memory, by the links between its bridges.
const NODE: u32 = 40;
/// `NVML_P2P_STATUS_NOT_SUPPORTED`.
const NO_PEERS: u32 = 5;
/// `NVML_P2P_CAPS_INDEX_UNKNOWN`: there are indices below it.
const PEER_INDICES: u32 = 5;
/// Bits of a word of a set.
const WORD: usize = u64::BITS as usize;

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTopologyCommonAncestor(one: Handle, other: Handle, level: Place<u32>) -> i32 {
    call("nvmlDeviceGetTopologyCommonAncestor", |library| {
        let same = library.place(one)? == library.place(other)?;
        level.give(if same { INTERNAL } else { NODE })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTopologyNearestGpus(
    device: Handle,
    level: u32,
    count: Place<u32>,
    list: List<Handle>,
) -> i32 {
    call("nvmlDeviceGetTopologyNearestGpus", |library| {
        let place = library.place(device)?;
        let others = (0..library.cards.len()).filter(|other| level == NODE && *other != place);
        let others: Vec<Handle> = others.map(|other| Handle::of(Target::Card(other))).collect();
        if list.is_null() { count.give(others.len() as u32) } else { list.fill(count, others) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetTopologyGpuSet(_processor: u32, count: Place<u32>, list: List<Handle>) -> i32 {
    call("nvmlSystemGetTopologyGpuSet", |library| {
        let all: Vec<Handle> = (0..library.cards.len()).map(|place| Handle::of(Target::Card(place))).collect();
        if list.is_null() { count.give(all.len() as u32) } else { list.fill(count, all) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetP2PStatus(one: Handle, other: Handle, index: u32, status: Place<u32>) -> i32 {
    call("nvmlDeviceGetP2PStatus", |library| {
        library.card(one)?;
        library.card(other)?;
        if index >= PEER_INDICES { Err(Code::INVALID_ARGUMENT) } else { status.give(NO_PEERS) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceOnSameBoard(one: Handle, other: Handle, same: Place<i32>) -> i32 {
    call("nvmlDeviceOnSameBoard", |library| same.give(i32::from(library.place(one)? == library.place(other)?)))
}

/// A set of so many words, with the first `bits` in it.
fn give_set(words: u32, list: List<u64>, bits: usize) -> Outcome {
    let mut left = bits;
    list.for_each(words, |word| {
        let here = left.min(WORD);
        left -= here;
        *word = u64::MAX.checked_shr((WORD - here) as u32).unwrap_or(0);
    })
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCpuAffinity(device: Handle, words: u32, set: List<u64>) -> i32 {
    call("nvmlDeviceGetCpuAffinity", |library| library.card(device).and_then(|_| give_set(words, set, processors())))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCpuAffinityWithinScope(device: Handle, words: u32, set: List<u64>, _scope: u32) -> i32 {
    call("nvmlDeviceGetCpuAffinityWithinScope", |library| {
        library.card(device).and_then(|_| give_set(words, set, processors()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryAffinity(device: Handle, words: u32, set: List<u64>, _scope: u32) -> i32 {
    call("nvmlDeviceGetMemoryAffinity", |library| library.card(device).and_then(|_| give_set(words, set, 1)))
}
