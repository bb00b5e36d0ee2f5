//! Moves device memory between cards and host memory: the work of a checkpoint and of a restore.
//!
//! Runs in the driver's own thread while the gate is closed and nobody is inside.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use baton_sim_wire::{CommandOrders, RangeWanted, UuidPair};

use crate::codes::{Code, Outcome};
use crate::driver::{Driver, Parts};
use crate::extent::{read_data, write_data};
use crate::mapping::Mapping;
use crate::memory::{Block, Pinning, Place};
use crate::pace::Pace;
use crate::session::Session;
use crate::{ipc, job, shareable, slots};

/// What keeps a process from being checkpointed, before anything has been moved.
fn obstacle(driver: &Driver, parts: &Parts, orders: &CommandOrders) -> Outcome {
    let session = parts.session.as_ref().ok_or(Code::ILLEGAL_STATE)?;
    if parts.memory.pinned.values().any(|pinned| matches!(pinned.pinning, Pinning::Managed(_))) {
        return Err(Code::NOT_SUPPORTED);
    }
    if ipc::is_shared(parts) && !(driver.version.has_ipc_checkpoint() && driver.job.is_some()) {
        return Err(Code::NOT_SUPPORTED);
    }
    if parts.mps.is_some() && !orders.can_mps {
        return Err(Code::NOT_SUPPORTED);
    }
    if parts.slots.iter().any(|slot| slot.instance.is_some()) && !orders.can_mig {
        // NVIDIA/cuda-checkpoint#42.
        return Err(Code::OUT_OF_MEMORY);
    }
    let has_some_cards_only = || Ok(parts.slots.len() < session.machine()?.cards.len());
    if !driver.version.has_partial_passthrough() && has_some_cards_only()? {
        return Err(Code::NOT_PERMITTED);
    }
    Ok(())
}

/// Moves everything into host memory and lets go of the cards and of the hardware.
pub fn to_host(driver: &Driver, orders: &CommandOrders) -> Outcome {
    let mut parts = driver.parts();
    let parts = &mut *parts;
    obstacle(driver, parts, orders)?;
    let session = parts.session.as_ref().ok_or(Code::ILLEGAL_STATE)?;
    let memories = memories(session, parts)?;
    // All host memory is taken before anything is moved: up to here nothing has changed.
    let host = |block: &Block| if block.opened.is_some() { Ok(None) } else { Mapping::of_host(block.bytes).map(Some) };
    let hosts: Result<Vec<Option<Mapping>>, _> = parts.memory.blocks.values().map(host).collect();
    let hosts = hosts.map_err(|_| Code::OUT_OF_MEMORY)?;
    let mut pace = Pace::of(orders.copy_rate);
    for (block, host) in parts.memory.blocks.values_mut().zip(hosts) {
        let Place::Card { offset, .. } = block.place else { return Err(Code::ILLEGAL_STATE) };
        let Some(host) = host else {
            block.place = Place::Away;
            continue;
        };
        let memory = memories[block.slot].as_ref().ok_or(Code::UNKNOWN)?;
        read_data(memory.as_fd(), offset, &host, &mut pace).map_err(|_| Code::OPERATING_SYSTEM)?;
        block.place = Place::Host(Arc::new(host));
        session.free(parts.slots[block.slot].device(), offset)?;
    }
    parts.memory.reservations.leave_cards().map_err(|_| Code::OPERATING_SYSTEM)?;
    session.release()?;
    driver.connect(parts, None);
    if let Some(mps) = &mut parts.mps {
        mps.leave();
    }
    Ok(())
}

/// The memory of each device that holds a block.
fn memories(session: &Session, parts: &Parts) -> Outcome<Vec<Option<OwnedFd>>> {
    let used = |slot: usize| parts.memory.blocks.values().any(|block| block.slot == slot);
    let slots = parts.slots.iter().enumerate();
    slots.map(|(index, slot)| used(index).then(|| session.memory(slot.device())).transpose()).collect()
}

/// Why a restore did not happen, and whether the process can be restored another time.
pub struct RestoreFault {
    pub code: Code,
    pub ruined: bool,
}

impl From<Code> for RestoreFault {
    fn from(code: Code) -> RestoreFault {
        RestoreFault { code, ruined: false }
    }
}

fn ruined(code: Code) -> RestoreFault {
    RestoreFault { code, ruined: true }
}

/// Takes cards again, perhaps others, and moves everything onto them.
pub fn to_cards(driver: &Driver, pairs: &[UuidPair], orders: &CommandOrders) -> Result<(), RestoreFault> {
    let mut parts = driver.parts();
    let parts = &mut *parts;
    let mut session = Session::open(&driver.root, None)?;
    let machine = session.machine()?;
    let slots = slots::destinations(&parts.slots, pairs, &machine.cards)?;
    let root = &driver.root;
    if !root.control_is_open_to_us() || slots.iter().any(|slot| !slot.is_open_to_us(root)) {
        return Err(Code::NOT_SUPPORTED.into());
    }
    if let Some(mps) = &mut parts.mps {
        let devices: Vec<String> = slots.iter().map(|slot| slot.device().to_owned()).collect();
        mps.rejoin(&devices)?;
        session = Session::open(root, Some(mps.server))?;
    }
    let contexts = parts.contexts.slots().map(|slot| slots[slot].device().to_owned()).collect();
    let own = |block: &&Block| block.opened.is_none();
    let wanted = |block: &Block| RangeWanted { device: slots[block.slot].device().to_owned(), bytes: block.bytes };
    let wanted = parts.memory.blocks.values().filter(own).map(wanted).collect();
    let ranges = session.claim(contexts, wanted).map_err(ruined)?;
    if shareable::is_guest(parts) {
        // No driver up to now opens such memory again.
        return Err(ruined(Code::INVALID_VALUE));
    }
    parts.slots = slots;
    let memories = memories(&session, parts).map_err(ruined)?;
    let mut pace = Pace::of(orders.copy_rate);
    let blocks = parts.memory.blocks.values_mut().filter(|block| block.opened.is_none());
    for (block, range) in blocks.zip(ranges) {
        let Place::Host(host) = &block.place else { return Err(ruined(Code::OPERATING_SYSTEM)) };
        let memory = memories[block.slot].as_ref().ok_or(ruined(Code::UNKNOWN))?;
        let mapping =
            Mapping::of_card(memory.as_fd(), range.offset, range.bytes).map_err(|_| ruined(Code::OPERATING_SYSTEM))?;
        write_data(host, memory.as_fd(), range.offset, &mut pace).map_err(|_| ruined(Code::OUT_OF_MEMORY))?;
        block.place = Place::Card { offset: range.offset, mapping: Arc::new(mapping) };
    }
    map_again(parts, &memories).map_err(ruined)?;
    // Hardware that has ended meanwhile knows nothing of what was written.
    session.machine().map_err(ruined)?;
    driver.connect(parts, Some(session));
    share_again(driver, parts).map_err(ruined)?;
    // Owners that are still to be restored tell later; an unlock looks again.
    open_again(driver, parts).map(drop).map_err(ruined)
}

/// Has memory by handles lie in its reserved ranges again.
fn map_again(parts: &Parts, memories: &[Option<OwnedFd>]) -> Outcome {
    let memory = &parts.memory;
    memory.reservations.return_to_cards(|handle| {
        let block = memory.physical.get(handle).and_then(|physical| memory.blocks.get(&physical.block));
        let block = block.ok_or(Code::UNKNOWN)?;
        let Place::Card { offset, .. } = block.place else { return Err(Code::UNKNOWN) };
        Ok((memories[block.slot].as_ref().ok_or(Code::UNKNOWN)?.as_fd(), offset))
    })
}

/// Tells the job what shared allocations are opened by on the cards they are on now.
fn share_again(driver: &Driver, parts: &Parts) -> Outcome {
    let Some(file) = &driver.job else { return Ok(()) };
    for block in parts.memory.blocks.values().filter(|block| block.context.is_some()) {
        let (Some(token), Place::Card { offset, .. }) = (block.exported, &block.place) else { continue };
        let key = parts.session()?.export(parts.slots[block.slot].device(), *offset)?;
        job::tell(file, token, key)?;
    }
    Ok(())
}

/// Opens what other processes of the job share; false while one of them is still to be restored.
fn open_again(driver: &Driver, parts: &mut Parts) -> Outcome<bool> {
    let mut all = true;
    let session = parts.session.as_ref().ok_or(Code::ILLEGAL_STATE)?;
    for block in parts.memory.blocks.values_mut().filter(|block| matches!(block.place, Place::Away)) {
        let (Some(opened), Some(file)) = (&mut block.opened, &driver.job) else { continue };
        let Some(key) = job::key_of(file, opened.token)? else {
            all = false;
            continue;
        };
        // The word of an earlier restore: its owner is away again.
        let Ok((range, memory)) = session.import(key) else {
            all = false;
            continue;
        };
        let mapping = Mapping::of_card(memory.as_fd(), range.offset, range.bytes).map_err(|_| Code::MAP_FAILED)?;
        opened.key = key;
        block.place = Place::Card { offset: range.offset, mapping: Arc::new(mapping) };
    }
    Ok(all)
}

/// Before calls go on: whatever other processes share must be there.
pub fn complete(driver: &Driver) -> Outcome {
    if open_again(driver, &mut driver.parts())? { Ok(()) } else { Err(Code::NOT_SUPPORTED) }
}
