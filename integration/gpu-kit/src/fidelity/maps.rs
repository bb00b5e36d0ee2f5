//! Maps of cards at a restore.

use baton_cuda::checkpoint::{Pair, State};
use baton_cuda::{Driver, code};

use super::{LOCK_MS, refused};
use crate::asked::Asked;
use crate::check::{Notes, Stop, Verdict, demand};
use crate::target::Target;

/// The first driver that takes a map, 580 (cuda-checkpoint's README).
const CUDA_MINIMUM: i32 = 13000;

/// Each card and itself.
fn identity_of(driver: &'static Driver) -> Result<Vec<Pair>, Stop> {
    let version = driver.version()?;
    if version < CUDA_MINIMUM {
        return Err(Stop::CannotRun(format!("CUDA {version} takes no map; {CUDA_MINIMUM} and newer do")));
    }
    let uuids = driver.cards()?.into_iter().map(|card| card.uuid_bytes()).collect::<Result<Vec<_>, _>>()?;
    Ok(uuids.into_iter().map(|uuid| (uuid, uuid)).collect())
}

/// A process that was checkpointed.
fn checkpointed(driver: &Driver) -> Result<Target, Stop> {
    let target = Target::start(&["hold", "8M"])?;
    driver.lock_process(target.pid(), LOCK_MS)?;
    driver.checkpoint_process(target.pid())?;
    Ok(target)
}

/// It is restored and goes on.
fn goes_on(driver: &Driver, target: &Target, map: &[Pair]) -> Verdict {
    driver.restore_process(target.pid(), map)?;
    driver.unlock_process(target.pid())?;
    target.goes_on()?;
    Ok(())
}

/// All cards to themselves.
pub fn identity(_: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    let target = checkpointed(driver)?;
    goes_on(driver, &target, &identity_of(driver)?)
}

/// A card that is not there.
pub fn unknown(_: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    let target = checkpointed(driver)?;
    let mut map = identity_of(driver)?;
    map[0].1 = [0x5a; 16];
    refused("restore to an unknown card", driver.restore_process(target.pid(), &map), &[code::INVALID_VALUE])?;
    let state = driver.process_state(target.pid())?;
    demand(state == State::Checkpointed, || format!("it is {state:?} afterwards"))?;
    goes_on(driver, &target, &[])
}

/// A card too few.
pub fn short(_: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    let mut map = identity_of(driver)?;
    if map.len() < 2 {
        return Err(Stop::CannotRun("there is one card".to_owned()));
    }
    map.pop();
    let target = checkpointed(driver)?;
    refused("restore by a short map", driver.restore_process(target.pid(), &map), &[code::INVALID_VALUE])?;
    goes_on(driver, &target, &[])
}

/// The first two cards change places.
pub fn other(notes: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    let cards = driver.cards()?;
    let [first, second, ..] = cards.as_slice() else {
        return Err(Stop::CannotRun("there is one card".to_owned()));
    };
    if first.name()? != second.name()? {
        return Err(Stop::CannotRun("the first two cards are of different models".to_owned()));
    }
    let mut map = identity_of(driver)?;
    (map[0].1, map[1].1) = (map[1].0, map[0].0);
    let target = checkpointed(driver)?;
    goes_on(driver, &target, &map)?;
    let status = target.status()?;
    let now = status.gpu();
    notes.note(format!("it was on {}, it is on {now}", first.uuid()?));
    demand(now == second.uuid()?, || format!("it says that it is on {now}"))
}
