//! Moves device memory between cards and host memory: the work of a checkpoint and of a restore.
//!
//! Runs in the driver's own thread while the gate is closed and nobody is inside.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use baton_sim_wire::{CommandOrders, RangeWanted, UuidPair};

use crate::codes::{Code, Outcome};
use crate::driver::{Driver, Parts};
use crate::mapping::Mapping;
use crate::memory::Place;
use crate::pace::Pace;
use crate::session::Session;
use crate::slots;

/// Copied at once, between two looks at the clock.
const PIECE: usize = 8 << 20;

/// Looked at together for being all zero.
const STRETCH: usize = 256 << 10;

/// Moves everything into host memory and lets go of the cards and of the hardware.
pub fn to_host(driver: &Driver, orders: &CommandOrders) -> Outcome {
    let mut parts = driver.parts();
    let parts = &mut *parts;
    let session = parts.session.as_ref().ok_or(Code::ILLEGAL_STATE)?;
    let memories = memories(session, parts)?;
    // All host memory is taken before anything is moved: up to here nothing has changed.
    let hosts: Result<Vec<Mapping>, _> =
        parts.memory.blocks.values().map(|block| Mapping::of_host(block.bytes)).collect();
    let hosts = hosts.map_err(|_| Code::OUT_OF_MEMORY)?;
    let mut pace = Pace::of(orders.copy_rate);
    for (block, host) in parts.memory.blocks.values_mut().zip(hosts) {
        let Place::Card { offset, mapping } = &block.place else { return Err(Code::ILLEGAL_STATE) };
        let card = &parts.slots[block.slot].card;
        let memory = memories[block.slot].as_ref().ok_or(Code::UNKNOWN)?;
        copy_data(memory.as_fd(), *offset, mapping, &host, &mut pace);
        let offset = *offset;
        block.place = Place::Host(host);
        session.free(card, offset)?;
    }
    session.release()?;
    parts.session = None;
    Ok(())
}

/// The memory of each card that holds a block.
fn memories(session: &Session, parts: &Parts) -> Outcome<Vec<Option<OwnedFd>>> {
    let used = |slot: usize| parts.memory.blocks.values().any(|block| block.slot == slot);
    let slots = parts.slots.iter().enumerate();
    slots.map(|(index, slot)| used(index).then(|| session.memory(&slot.card)).transpose()).collect()
}

/// Copies what has ever been written; the rest reads as zero on both sides.
fn copy_data(memory: BorrowedFd<'_>, start: u64, from: &Mapping, to: &Mapping, pace: &mut Pace) {
    let end = start + from.len() as u64;
    let mut at = start;
    while let Some((data, hole)) = next_extent(memory, at).filter(|(data, _)| *data < end) {
        let (mut done, stop) = ((data - start) as usize, (hole.min(end) - start) as usize);
        while done < stop {
            let piece = PIECE.min(stop - done);
            if let (Some(source), Some(target)) = (from.at(done, piece), to.at(done, piece)) {
                // SAFETY: both mappings have `piece` bytes there, and they are different mappings.
                unsafe { std::ptr::copy_nonoverlapping(source, target, piece) };
            }
            done += piece;
            pace.copied(piece);
        }
        at = hole;
    }
}

fn next_extent(memory: BorrowedFd<'_>, at: u64) -> Option<(u64, u64)> {
    let seek = |from: u64, what: i32| {
        // SAFETY: plain numbers and an open descriptor; nobody relies on the file position.
        u64::try_from(unsafe { libc::lseek(memory.as_raw_fd(), from as i64, what) }).ok()
    };
    let data = seek(at, libc::SEEK_DATA)?;
    Some((data, seek(data, libc::SEEK_HOLE)?))
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
    let session = Session::open(&driver.root)?;
    let machine = session.machine()?;
    let cards = slots::destinations(&parts.slots, pairs, &machine.cards)?;
    let root = &driver.root;
    if !root.control_is_open_to_us() || cards.iter().any(|card| !root.card_is_open_to_us(card.minor)) {
        return Err(Code::NOT_SUPPORTED.into());
    }
    let contexts = parts.contexts.slots().map(|slot| cards[slot].uuid.clone()).collect();
    let wanted = |slot: usize, bytes| RangeWanted { device: cards[slot].uuid.clone(), bytes };
    let wanted = parts.memory.blocks.values().map(|block| wanted(block.slot, block.bytes)).collect();
    let ranges = session.claim(contexts, wanted).map_err(ruined)?;
    for (slot, card) in parts.slots.iter_mut().zip(cards) {
        slot.card = card.clone();
    }
    let memories = memories(&session, parts).map_err(ruined)?;
    let mut pace = Pace::of(orders.copy_rate);
    for (block, range) in parts.memory.blocks.values_mut().zip(ranges) {
        let Place::Host(host) = &block.place else { return Err(ruined(Code::OPERATING_SYSTEM)) };
        let memory = memories[block.slot].as_ref().ok_or(ruined(Code::UNKNOWN))?;
        let mapping =
            Mapping::of_card(memory.as_fd(), range.offset, range.bytes).map_err(|_| ruined(Code::OPERATING_SYSTEM))?;
        copy_pages(host, &mapping, &mut pace);
        block.place = Place::Card { offset: range.offset, mapping };
    }
    parts.session = Some(session);
    Ok(())
}

/// Copies stretches that are not all zero: fresh card memory reads as zero.
fn copy_pages(from: &Mapping, to: &Mapping, pace: &mut Pace) {
    let mut done = 0;
    while done < from.len() {
        let piece = STRETCH.min(from.len() - done);
        if let (Some(source), Some(target)) = (from.at(done, piece), to.at(done, piece)) {
            // SAFETY: the mapping has whole pages there, so whole words, and nobody writes to it.
            let words = unsafe { std::slice::from_raw_parts(source.cast::<u64>(), piece / 8) };
            if words.iter().any(|word| *word != 0) {
                to.populate(done, piece);
                // SAFETY: both mappings have `piece` bytes there, and they are different mappings.
                unsafe { std::ptr::copy_nonoverlapping(source, target, piece) };
            }
        }
        done += piece;
        pace.copied(piece);
    }
}
