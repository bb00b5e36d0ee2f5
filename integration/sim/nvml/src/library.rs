//! Initialisation, and the way to the hardware.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_sim_wire::{Card, CardUse, Channel, DriverRoot, Reply, Request};

use crate::codes::{Code, Outcome, code_of};

/// An `nvmlDevice_t`: not an address.
pub type Handle = usize;

const FIRST: Handle = 0x00d0_0001;

/// What is known between init and shutdown.
#[derive(Debug)]
pub struct Library {
    root: DriverRoot,
    /// Driver version.
    pub driver: String,
    /// CUDA version.
    pub cuda: i32,
    /// The cards whose nodes this process may open.
    pub cards: Vec<Card>,
}

static LIBRARY: Mutex<(u32, Option<Library>)> = Mutex::new((0, None));

fn library() -> MutexGuard<'static, (u32, Option<Library>)> {
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Machine {
    driver: String,
    cuda: i32,
    cards: Vec<CardUse>,
}

fn ask(root: &DriverRoot) -> Outcome<Machine> {
    let channel = Channel::connect(&root.socket()).map_err(|_| Code::DRIVER_NOT_LOADED)?;
    match channel.ask(&Request::Cards) {
        Ok((Reply::Cards { driver, cuda, cards }, _)) => Ok(Machine { driver, cuda, cards }),
        _ => Err(Code::UNKNOWN),
    }
}

impl Library {
    fn load() -> Outcome<Library> {
        let root = DriverRoot::of_library(nvmlInit_v2 as *const c_void).ok_or(Code::DRIVER_NOT_LOADED)?;
        let Machine { driver, cuda, cards } = ask(&root)?;
        if !root.control_is_open_to_us() {
            return Err(Code::DRIVER_NOT_LOADED);
        }
        let cards =
            cards.into_iter().map(|held| held.card).filter(|card| root.card_is_open_to_us(card.minor)).collect();
        Ok(Library { root, driver, cuda, cards })
    }

    /// The card of a handle.
    pub fn card(&self, handle: Handle) -> Outcome<&Card> {
        handle.checked_sub(FIRST).and_then(|index| self.cards.get(index)).ok_or(Code::INVALID_ARGUMENT)
    }

    /// The handle of a card.
    pub fn handle(&self, wanted: impl Fn(&Card) -> bool) -> Outcome<Handle> {
        self.cards.iter().position(wanted).map(|index| FIRST + index).ok_or(Code::NOT_FOUND)
    }

    /// The place of a handle among the cards.
    pub fn index(&self, handle: Handle) -> Outcome<u32> {
        self.card(handle).map(|_| (handle - FIRST) as u32)
    }

    /// What holds the card now.
    pub fn usage(&self, handle: Handle) -> Outcome<CardUse> {
        let uuid = &self.card(handle)?.uuid;
        ask(&self.root)?.cards.into_iter().find(|held| held.card.uuid == *uuid).ok_or(Code::UNKNOWN)
    }
}

/// Makes one call.
pub fn call(work: impl FnOnce(&Library) -> Outcome) -> i32 {
    code_of(library().1.as_ref().ok_or(Code::UNINITIALIZED).and_then(work))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> i32 {
    let mut library = library();
    if library.1.is_none() {
        match Library::load() {
            Ok(loaded) => library.1 = Some(loaded),
            Err(code) => return code.0,
        }
    }
    library.0 += 1;
    0
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> i32 {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: u32) -> i32 {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> i32 {
    let mut library = library();
    if library.1.is_none() {
        return Code::UNINITIALIZED.0;
    }
    library.0 -= 1;
    if library.0 == 0 {
        library.1 = None;
    }
    0
}
