//! Initialisation, and the way to the hardware.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_sim_model::Model;
use baton_sim_wire::{Card, CardUse, Change, Channel, DriverRoot, Reply, Request};

use crate::codes::{Code, Outcome, code_of};
use crate::handle::{Handle, Target};
use crate::{fault, permission};

/// What is known between init and shutdown.
#[derive(Debug)]
pub struct Library {
    /// Where the driver lies.
    pub root: DriverRoot,
    /// Driver version.
    pub driver: String,
    /// CUDA version.
    pub cuda: i32,
    /// The cards whose nodes this process may open.
    pub cards: Vec<Card>,
}

/// How often it was initialised, and what came of it.
static LIBRARY: Mutex<(u32, Option<Arc<Library>>)> = Mutex::new((0, None));

fn library() -> MutexGuard<'static, (u32, Option<Arc<Library>>)> {
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

/// A card as it is now.
#[derive(Debug)]
pub struct Now {
    /// Its place among the cards that were found.
    pub place: usize,
    /// What it is set to, cut into and holds.
    pub held: CardUse,
}

impl Now {
    /// What product it is.
    pub fn model(&self) -> Outcome<&'static Model> {
        Model::of_name(&self.held.card.model).ok_or(Code::UNKNOWN)
    }
}

impl Library {
    fn load(root: DriverRoot) -> Outcome<Library> {
        let Machine { driver, cuda, cards } = ask(&root)?;
        if !root.control_is_open_to_us() {
            return Err(Code::DRIVER_NOT_LOADED);
        }
        let cards =
            cards.into_iter().map(|held| held.card).filter(|card| root.card_is_open_to_us(card.minor)).collect();
        Ok(Library { root, driver, cuda, cards })
    }

    /// The card at a place.
    pub fn at(&self, place: usize) -> Outcome<&Card> {
        self.cards.get(place).ok_or(Code::INVALID_ARGUMENT)
    }

    /// The card of a handle that stands for a whole card; a MIG device is an invalid argument.
    pub fn card(&self, handle: Handle) -> Outcome<&Card> {
        match handle.target()? {
            Target::Card(place) => self.at(place),
            Target::Mig(..) => Err(Code::INVALID_ARGUMENT),
        }
    }

    /// The place of a whole card.
    pub fn place(&self, handle: Handle) -> Outcome<usize> {
        self.card(handle).and(handle.target()).map(Target::card)
    }

    /// The card at a place as it is now.
    pub fn now_at(&self, place: usize) -> Outcome<Now> {
        let uuid = &self.at(place)?.uuid;
        let held = ask(&self.root)?.cards.into_iter().find(|held| held.card.uuid == *uuid).ok_or(Code::UNKNOWN)?;
        Ok(Now { place, held })
    }

    /// The whole card of a handle as it is now.
    pub fn now(&self, handle: Handle) -> Outcome<Now> {
        self.now_at(self.place(handle)?)
    }

    /// Has the hardware change something; the number of an instance that was made comes back.
    pub fn administer(&self, place: usize, change: Change) -> Outcome<Option<u32>> {
        let card = self.at(place)?.uuid.clone();
        if !permission::is_root() {
            return Err(Code::NO_PERMISSION);
        }
        let channel = Channel::connect(&self.root.socket()).map_err(|_| Code::UNKNOWN)?;
        match channel.ask(&Request::Administer { card, change }) {
            Ok((Reply::Done, _)) => Ok(None),
            Ok((Reply::Instance { id }, _)) => Ok(Some(id)),
            Ok((Reply::Refused { code, .. }, _)) => Err(Code(code)),
            _ => Err(Code::UNKNOWN),
        }
    }
}

/// Does wrong what was ordered to go wrong. Hardware that cannot be reached orders nothing.
fn obey(root: &DriverRoot, name: &str) -> Outcome {
    Channel::connect(&root.socket()).map_or(Ok(()), |channel| fault::obey(&channel, name))
}

/// Makes the call of that name. No lock is held while it works: one that hangs holds up no other.
pub fn call(name: &str, work: impl FnOnce(&Library) -> Outcome) -> i32 {
    let loaded = library().1.clone();
    let made = loaded.ok_or(Code::UNINITIALIZED).and_then(|library| {
        obey(&library.root, name)?;
        work(&library)
    });
    code_of(made)
}

fn init() -> Outcome {
    let root = DriverRoot::of_library(nvmlInit_v2 as *const c_void).ok_or(Code::DRIVER_NOT_LOADED)?;
    obey(&root, "nvmlInit_v2")?;
    let mut library = library();
    if library.1.is_none() {
        library.1 = Some(Arc::new(Library::load(root)?));
    }
    library.0 += 1;
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> i32 {
    code_of(init())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> i32 {
    nvmlInit_v2()
}

/// Bit 0: no card is no error, which it is not without it either. Bit 1: attach no card, which nothing does here.
#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: u32) -> i32 {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> i32 {
    let asked = call("nvmlShutdown", |_| Ok(()));
    let mut library = library();
    if asked != 0 || library.1.is_none() {
        return if asked != 0 { asked } else { Code::UNINITIALIZED.0 };
    }
    library.0 -= 1;
    if library.0 == 0 {
        library.1 = None;
    }
    0
}
