//! Memory, on the card and on the host.

use std::time::Duration;

use baton_cuda::{Context, DeviceMemory, Driver, code};

use super::{LOCK_MS, refused};
use crate::asked::Asked;
use crate::check::{Notes, Stop, Verdict, demand};
use crate::target::Target;

/// What the targets hold.
const HELD_MIB: u64 = 256;
const HELD: &str = "256M";

fn checkpoint(driver: &Driver, target: &Target) -> Verdict {
    driver.lock_process(target.pid(), LOCK_MS)?;
    Ok(driver.checkpoint_process(target.pid())?)
}

fn goes_on(driver: &Driver, target: &Target) -> Verdict {
    driver.restore_process(target.pid(), &[])?;
    driver.unlock_process(target.pid())?;
    target.goes_on()?;
    Ok(())
}

fn free_mib(context: &Context) -> Result<u64, Stop> {
    Ok(context.room()?.0 >> 20)
}

/// What is free before, during and after.
pub fn card_freed(notes: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    let context = driver.card().context()?;
    let empty = free_mib(&context)?;
    let target = Target::start(&["hold", HELD])?;
    let held = free_mib(&context)?;
    checkpoint(driver, &target)?;
    let away = free_mib(&context)?;
    goes_on(driver, &target)?;
    let back = free_mib(&context)?;
    notes.note(format!("free: {empty} MiB, {held} with it, {away} checkpointed, {back} restored"));
    notes.note(format!("its context costs {} MiB", (empty - held.min(empty)).saturating_sub(HELD_MIB)));
    demand(held + HELD_MIB <= empty, || format!("{HELD_MIB} MiB took {} MiB", empty.saturating_sub(held)))?;
    demand(away.abs_diff(empty) < 64, || format!("{away} MiB are free though {empty} were before it"))?;
    demand(back.abs_diff(held) < 64, || format!("{back} MiB are free though {held} were with it"))
}

/// The process grows by what it held.
pub fn host_copy(notes: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    let target = Target::start(&["hold", HELD])?;
    let before = target.kilobytes("VmRSS")? >> 10;
    checkpoint(driver, &target)?;
    let (after, anonymous) = (target.kilobytes("VmRSS")? >> 10, target.kilobytes("RssAnon")? >> 10);
    goes_on(driver, &target)?;
    notes.note(format!("resident: {before} MiB, {after} checkpointed, {anonymous} of them anonymous"));
    // A third of what is held is zero, which a driver may spare.
    demand(anonymous + 8 >= HELD_MIB * 2 / 3, || format!("{anonymous} MiB of anonymous memory for {HELD_MIB} MiB"))
}

/// Open files, and mappings, of /dev/nvidia*.
fn card_files(pid: i32) -> Result<Vec<String>, String> {
    let folder = format!("/proc/{pid}/fd");
    let open = std::fs::read_dir(&folder).map_err(|err| format!("read {folder}: {err}"))?.flatten();
    let open = open.filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()));
    let maps =
        std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|err| format!("read its mappings: {err}"))?;
    let mapped = maps.lines().filter_map(|line| line.split_whitespace().nth(5).map(str::to_owned));
    Ok(open.chain(mapped).filter(|path| path.starts_with("/dev/nvidia")).collect())
}

/// What CRIU would meet.
pub fn files_closed(notes: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    let target = Target::start(&["hold", "8M"])?;
    let before = card_files(target.pid())?;
    checkpoint(driver, &target)?;
    let after = card_files(target.pid())?;
    goes_on(driver, &target)?;
    notes.note(format!("{} before, {} checkpointed", before.len(), after.len()));
    demand(after.is_empty(), || format!("left: {}", after.join(", ")))
}

/// Takes all the room there is.
fn fill(context: &Context) -> Result<Vec<DeviceMemory>, Stop> {
    let mut taken = Vec::new();
    let mut wanted = context.room()?.0;
    while wanted >= 1 << 20 {
        match DeviceMemory::take(context, wanted as usize) {
            Ok(memory) => taken.push(memory),
            Err(error) if error.code() == Some(code::OUT_OF_MEMORY) => wanted /= 2,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(taken)
}

/// The rule that no restore may be tried before there is room for it rests on this.
pub fn no_room(notes: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    let context = driver.card().context()?;
    let target = Target::start(&["hold", HELD])?;
    checkpoint(driver, &target)?;
    let filling = fill(&context)?;
    let first = driver.restore_process(target.pid(), &[]);
    notes.note(format!("restore into a full card: {first:?}"));
    drop(filling);
    let state = driver.process_state(target.pid());
    let again = driver.restore_process(target.pid(), &[]);
    let unlock = driver.unlock_process(target.pid());
    notes.note(format!("afterwards, with room: state {state:?}, restore {again:?}, unlock {unlock:?}"));
    refused("restore into a full card", first, &[code::OUT_OF_MEMORY])?;
    refused("restore afterwards", again, &[code::OPERATING_SYSTEM])?;
    refused("unlock afterwards", unlock, &[code::ILLEGAL_STATE])
}

/// Managed memory.
pub fn managed(notes: &mut Notes) -> Verdict {
    let driver = Driver::open()?;
    let target = match Target::start(&["managed", "4M"]) {
        Ok(target) => target,
        Err(why) => return Err(Stop::CannotRun(format!("no managed memory: {why}"))),
    };
    let locked = driver.lock_process(target.pid(), LOCK_MS);
    let moved = driver.checkpoint_process(target.pid());
    notes.note(format!("lock {locked:?}, checkpoint {moved:?}, state {:?}", driver.process_state(target.pid())));
    demand(moved.is_err(), || "it was checkpointed".to_owned())
}

/// At the limit for a while.
pub fn hungry(notes: &mut Notes) -> Verdict {
    const REFUSED_AT_LEAST: u64 = 3;
    let target = Target::start(&["hungry", "--leave", "256M", "--interval-ms", "0"])?;
    let end = std::time::Instant::now() + Duration::from_secs(40);
    loop {
        let now = target.status()?;
        if now.refused >= REFUSED_AT_LEAST {
            notes.note(format!("refused {} times in {} steps", now.refused, now.step));
            return Ok(());
        }
        demand(std::time::Instant::now() < end, || format!("refused {} times in {} steps", now.refused, now.step))?;
    }
}
