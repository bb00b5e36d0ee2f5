//! Sets of events. Nothing ever happens to these cards that would be told, so whoever waits waits in vain: until the time is
//! up.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::codes::{Code, Outcome};
use crate::handle::{Handle, Target};
use crate::layout::layout;
use crate::library::call;
use crate::pointer::Place;

/// `nvmlEventType…`: errors of memory (1, 2), P-state (4), Xid (8), clocks (0x10), power source (0x80), MIG configuration
/// (0x100), retirement of memory (0x200 to 0x800), poison (0x1000, 0x2000), loss and recovery (0x4000, 0x8000).
const SUPPORTED: u64 = 0xff9f;

/// An `nvmlEventSet_t`.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct EventSet(usize);

/// `nvmlEventData_t`.
#[repr(C)]
struct Event {
    device: Handle,
    kind: u64,
    data: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

layout!(Event, 32: device 0, kind 8, data 16, gpu_instance 24, compute_instance 28);

/// The sets that there are, and the number of the next.
static SETS: Mutex<(usize, BTreeSet<usize>)> = Mutex::new((0x00e0_0001, BTreeSet::new()));

fn sets() -> MutexGuard<'static, (usize, BTreeSet<usize>)> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn known(set: EventSet) -> Outcome {
    if sets().1.contains(&set.0) { Ok(()) } else { Err(Code::INVALID_ARGUMENT) }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetCreate(set: Place<EventSet>) -> i32 {
    call("nvmlEventSetCreate", |_| {
        set.exists()?;
        let mut sets = sets();
        let number = sets.0;
        sets.0 += 1;
        sets.1.insert(number);
        set.give(EventSet(number))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetFree(set: EventSet) -> i32 {
    call("nvmlEventSetFree", |_| if sets().1.remove(&set.0) { Ok(()) } else { Err(Code::INVALID_ARGUMENT) })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSupportedEventTypes(device: Handle, kinds: Place<u64>) -> i32 {
    call("nvmlDeviceGetSupportedEventTypes", |library| library.card(device).and_then(|_| kinds.give(SUPPORTED)))
}

/// MIG devices have no events of their own (nvml.h).
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceRegisterEvents(device: Handle, kinds: u64, set: EventSet) -> i32 {
    call("nvmlDeviceRegisterEvents", |library| {
        library.at(device.target()?.card())?;
        known(set)?;
        let possible = matches!(device.target()?, Target::Card(_)) && kinds & !SUPPORTED == 0;
        if possible { Ok(()) } else { Err(Code::NOT_SUPPORTED) }
    })
}

fn wait(name: &str, set: EventSet, event: Place<Event>, milliseconds: u32) -> i32 {
    call(name, |_| {
        event.exists()?;
        known(set)?;
        std::thread::sleep(Duration::from_millis(u64::from(milliseconds)));
        Err(Code::TIMEOUT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait_v2(set: EventSet, event: Place<Event>, milliseconds: u32) -> i32 {
    wait("nvmlEventSetWait_v2", set, event, milliseconds)
}

/// Its struct is shorter; nothing is written into it.
#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait(set: EventSet, event: Place<Event>, milliseconds: u32) -> i32 {
    wait("nvmlEventSetWait", set, event, milliseconds)
}
