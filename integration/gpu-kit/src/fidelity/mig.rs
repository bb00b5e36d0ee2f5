//! MIG: what the tables of the simulation say of a card, and what its driver does with a process on a MIG device.

use baton_cuda::{Driver, code};
use baton_sim_model::{MigTable, Model, capability_table, choose, gpu_instance_id};

use super::{checkpoint_is_refused, timed};
use crate::asked::Asked;
use crate::check::{Notes, Stop, Verdict, demand};
use crate::mig::{MigCard, Profile};
use crate::target::Target;

/// What tells the numbers of the capability nodes.
const MINORS: &str = "/proc/driver/nvidia-caps/mig-minors";

/// The driver's own table and ours.
pub fn minors(notes: &mut Notes) -> Verdict {
    let theirs = std::fs::read_to_string(MINORS).map_err(|err| Stop::CannotRun(format!("read {MINORS}: {err}")))?;
    let ours = capability_table();
    let other = theirs.lines().find(|line| !ours.lines().any(|our| our == *line));
    notes.note(format!("{} lines, {} of ours", theirs.lines().count(), ours.lines().count()));
    demand(other.is_none() && theirs.starts_with("config"), || format!("the driver has {other:?}"))
}

fn table_of(card: &MigCard) -> Result<&'static MigTable, Stop> {
    let model = Model::of_name(&card.model).and_then(|model| model.mig);
    model.ok_or_else(|| Stop::CannotRun(format!("there is no table for {:?}", card.model)))
}

/// What the card says of itself and what the table does.
pub fn tables(notes: &mut Notes) -> Verdict {
    let card = MigCard::take()?;
    let ours = table_of(&card)?.profiles.iter().map(|profile| Profile {
        id: profile.id,
        name: profile.name.to_owned(),
        gibibytes: format!("{:.2}", profile.mebibytes as f64 / 1024.0),
        multiprocessors: profile.multiprocessors,
        places: format!(
            "{{{}}}:{}",
            profile.starts.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
            profile.size
        ),
    });
    let (theirs, ours) = (card.profiles()?, ours.collect::<Vec<_>>());
    for profile in &theirs {
        let Profile { id, name, gibibytes, multiprocessors, places } = profile;
        notes.note(format!("{id}: {name}, {gibibytes} GiB, {multiprocessors} SM, at {places}"));
    }
    let unlike = |one: &[Profile], other: &[Profile]| -> Vec<String> {
        one.iter().filter(|profile| !other.contains(profile)).map(|profile| format!("{profile:?}")).collect()
    };
    let (more, less) = (unlike(&theirs, &ours), unlike(&ours, &theirs));
    let same = more.is_empty() && less.is_empty() && !theirs.is_empty();
    demand(same, || format!("the card of that name has\n{}\nwhere the table has\n{}", more.join("\n"), less.join("\n")))
}

/// Where the driver puts instances when it may choose, and what they are called: one of each kind, from the smallest on
/// and from the largest on.
pub fn places(notes: &mut Notes) -> Verdict {
    let card = MigCard::take_whole()?;
    let table = table_of(&card)?;
    let mut profiles: Vec<_> = table.profiles.iter().collect();
    profiles.sort_by_key(|profile| (profile.size, profile.id));
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for backwards in [false, true] {
        let (mut there, mut made) = (Vec::new(), Vec::new());
        for profile in &profiles {
            let said = |id: u32, place: String| format!("{} is {id} at {place}", profile.name);
            let absent = || format!("no room for {}", profile.name);
            let place = choose(table, &there, profile);
            ours.push(place.map_or_else(absent, |place| {
                said(gpu_instance_id(table.memory_slices, place), format!("{}:{}", place.start, place.size))
            }));
            there.extend(place.map(|place| (profile.index, place)));
            let instance = card.make(profile.id, false)?;
            theirs.push(instance.as_ref().map_or_else(absent, |instance| said(instance.id, instance.place.clone())));
            made.extend(instance);
        }
        made.iter().try_for_each(|instance| card.destroy(instance))?;
        demand(card.gpu_instances().is_empty(), || "destroyed instances are still listed".to_owned())?;
        if !backwards {
            profiles.reverse();
        }
    }
    notes.note(theirs.join("; "));
    demand(theirs == ours, || format!("the simulation has {}", ours.join("; ")))
}

/// A process on a MIG device, the card, and the device's UUID.
fn on_device() -> Result<(Target, MigCard, String), Stop> {
    let (card, uuid) = MigCard::with_device()?;
    Ok((Target::start_with(&["hold", "64M"], &[("CUDA_VISIBLE_DEVICES", uuid.as_str())])?, card, uuid))
}

/// A process on an instance.
pub fn device(notes: &mut Notes) -> Verdict {
    let (target, card, uuid) = on_device()?;
    let seen = target.goes_on()?.gpu().to_owned();
    notes.note(format!("{uuid} of a {}", card.model));
    let bare = |uuid: &str| uuid.trim_start_matches("MIG-").trim_start_matches("GPU-").to_owned();
    demand(bare(&seen) == bare(&uuid), || format!("the process says that it is on {seen}"))
}

/// The same, and a checkpoint.
pub fn checkpoint(notes: &mut Notes) -> Verdict {
    let (target, _card, _) = on_device()?;
    let driver = Driver::open()?;
    timed(notes, "lock", || driver.lock_process(target.pid(), super::LOCK_MS))?;
    checkpoint_is_refused(notes, driver, &target, code::OUT_OF_MEMORY)
}
