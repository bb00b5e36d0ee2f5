//! A card in MIG mode and instances on it, by `nvidia-smi`, as an operator makes them.

use crate::check::Stop;
use crate::driver_program::{alone, smi, together};
use crate::undo;

/// Set where the kit was allowed to switch a card's MIG mode.
pub const ALLOWED: &str = "BATON_KIT_MIG";

/// A card in MIG mode. What is changed of it is undone when the check has ended ([`undo`]).
#[derive(Debug)]
pub struct MigCard {
    index: String,
    /// The product's name.
    pub model: String,
    /// Whether instances may be made on it: how it was is written down.
    is_ours: bool,
}

/// A kind of GPU instance as `mig -lgip` and `-lgipp` tell it.
#[derive(Debug, PartialEq, Eq)]
pub struct Profile {
    /// The number by which it is asked for.
    pub id: u32,
    /// `1g.10gb+me`.
    pub name: String,
    /// Its memory in GiB, with two places.
    pub gibibytes: String,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Where it may lie: `{0,2,4}:2`.
    pub places: String,
}

/// A GPU instance.
#[derive(Debug, PartialEq, Eq)]
pub struct GpuInstance {
    /// Its number.
    pub id: u32,
    /// Its profile's number.
    pub profile: u32,
    /// First slice and size: `4:2`.
    pub place: String,
}

impl MigCard {
    /// A card in MIG mode to be asked: the first one that is; where there is none and it is allowed, the first that goes
    /// into that mode.
    pub fn take() -> Result<MigCard, Stop> {
        let cards = cards()?;
        if let Some(card) = cards.iter().find(|card| card.mode == "Enabled") {
            return Ok(MigCard { index: card.index.clone(), model: card.model.clone(), is_ours: false });
        }
        let cards: Vec<Card> = cards.into_iter().filter(|card| card.is_plain()).collect();
        if cards.is_empty() {
            return Err(Stop::CannotRun("no card has MIG, but for those whose mode is about to change".to_owned()));
        }
        allowed("no card is in MIG mode")?;
        let mut why = Vec::new();
        for card in cards {
            undo::before_change(&card.index, false)?;
            let said = smi(&["-i", &card.index, "-mig", "1"], together);
            if is_on(&card.index).is_ok_and(|is_on| is_on) {
                return Ok(MigCard { index: card.index, model: card.model, is_ours: true });
            }
            why.push(format!("card {} does not go into MIG mode: {said:?}", card.index));
            undo::after_check()?;
        }
        Err(Stop::CannotRun(why.join("; ")))
    }

    /// The same, to be cut: it has no instances, and those that are made go away with it.
    pub fn take_whole() -> Result<MigCard, Stop> {
        let mut card = MigCard::take()?;
        if !card.is_ours {
            allowed(&format!("card {} is in MIG mode already", card.index))?;
            if !card.gpu_instances().is_empty() {
                return Err(Stop::CannotRun(format!("card {} has instances, which are left alone", card.index)));
            }
            undo::before_change(&card.index, true)?;
            card.is_ours = true;
        }
        Ok(card)
    }

    fn mig(&self, words: &[&str]) -> Result<String, Stop> {
        smi(&[&["mig", "-i", &self.index], words].concat(), together)
    }

    /// What it can be cut into.
    pub fn profiles(&self) -> Result<Vec<Profile>, Stop> {
        Ok(profiles(&self.mig(&["-lgip"])?, &self.mig(&["-lgipp"])?))
    }

    /// The GPU instances that there are.
    pub fn gpu_instances(&self) -> Vec<GpuInstance> {
        gpu_instances_of(&self.index)
    }

    /// Makes a GPU instance, with the compute instance that fills it where one is wanted; `None` where there is no room.
    pub fn make(&self, profile: u32, with_compute: bool) -> Result<Option<GpuInstance>, Stop> {
        let before = self.gpu_instances();
        let words = ["-cgi", &profile.to_string(), "-C"];
        let said = match self.mig(&words[..if with_compute { 3 } else { 2 }]) {
            Ok(said) => said,
            Err(Stop::CannotRun(why)) if why.contains("Insufficient Resources") => return Ok(None),
            Err(why) => return Err(why),
        };
        let made = self.gpu_instances().into_iter().find(|instance| !before.contains(instance));
        made.map(Some).ok_or_else(|| Stop::Failed(format!("{}\nbut -lgi lists none", said.trim())))
    }

    /// Destroys one without a compute instance.
    pub fn destroy(&self, instance: &GpuInstance) -> Result<(), Stop> {
        self.mig(&["-gi", &instance.id.to_string(), "-dgi"]).map(drop)
    }

    /// Its first MIG device.
    fn first_device(&self) -> Result<Option<String>, Stop> {
        Ok(devices(&smi(&["-L"], together)?, &self.index).into_iter().next())
    }

    /// A MIG device of the card: one that is there, else the smallest that can be made, where that is allowed.
    pub fn with_device() -> Result<(MigCard, String), Stop> {
        let card = MigCard::take()?;
        if let Some(uuid) = card.first_device()? {
            return Ok((card, uuid));
        }
        let card = if card.is_ours { card } else { MigCard::take_whole()? };
        let least = |profile: &&Profile| (profile.multiprocessors, profile.gibibytes.len(), profile.gibibytes.clone());
        let profiles = card.profiles()?;
        let smallest = profiles.iter().filter(|profile| !profile.name.contains('+')).min_by_key(least);
        let smallest = smallest.ok_or_else(|| Stop::Failed("it lists no profile".to_owned()))?;
        if card.make(smallest.id, true)?.is_none() {
            return Err(Stop::CannotRun(format!("card {} has no room for a {}", card.index, smallest.name)));
        }
        let new = card
            .first_device()?
            .ok_or_else(|| Stop::Failed("nvidia-smi -L does not list the new MIG device".to_owned()))?;
        Ok((card, new))
    }
}

/// What may only be done where the user has said so.
fn allowed(but: &str) -> Result<(), Stop> {
    if std::env::var_os(ALLOWED).is_some() {
        return Ok(());
    }
    Err(Stop::CannotRun(format!("{but}; with --mig the kit makes instances on a card without any, for a while")))
}

/// A card as `nvidia-smi` lists it.
#[derive(Debug)]
struct Card {
    index: String,
    model: String,
    mode: String,
    pending: String,
}

impl Card {
    /// Whether MIG is off and is to stay so.
    fn is_plain(&self) -> bool {
        self.mode == "Disabled" && self.pending == "Disabled"
    }
}

fn cards() -> Result<Vec<Card>, Stop> {
    const FIELDS: &str = "--query-gpu=index,name,mig.mode.current,mig.mode.pending";
    let text = smi(&[FIELDS, "--format=csv,noheader"], alone)?;
    let row = |line: &str| {
        let mut cells = line.split(',').map(|cell| cell.trim().to_owned());
        Some(Card { index: cells.next()?, model: cells.next()?, mode: cells.next()?, pending: cells.next()? })
    };
    Ok(text.lines().filter_map(row).collect())
}

/// Whether a card is in MIG mode, and stays so.
///
/// # Errors
/// That the mode is about to change, or that there is no such card.
pub fn is_on(index: &str) -> Result<bool, Stop> {
    let card = cards()?.into_iter().find(|card| card.index == index);
    match card.as_ref().map(|card| (card.mode.as_str(), card.pending.as_str())) {
        Some(("Enabled", "Enabled")) => Ok(true),
        Some(("Disabled", "Disabled")) => Ok(false),
        _ => Err(Stop::CannotRun(format!("{card:?}"))),
    }
}

/// The GPU instances of a card.
pub fn gpu_instances_of(index: &str) -> Vec<GpuInstance> {
    // It fails where there is none.
    smi(&["mig", "-i", index, "-lgi"], alone).map(|text| gpu_instances(&text)).unwrap_or_default()
}

/// From the tables of `mig -lgip` and the lines of `mig -lgipp`.
fn profiles(table: &str, lines: &str) -> Vec<Profile> {
    // | 0  MIG 1g.10gb  19  7/7  9.75  No  16  0  0 |
    let row = |line: &str| {
        let mut words = line.strip_prefix('|')?.split_whitespace().skip_while(|word| *word != "MIG").skip(1);
        let (name, id) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        let gibibytes = words.nth(1)?.to_owned();
        let multiprocessors = words.nth(1)?.parse().ok()?;
        Some(Profile { id, name, gibibytes, multiprocessors, places: places(lines, id)? })
    };
    table.lines().filter_map(row).collect()
}

/// `GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1`
fn places(lines: &str, id: u32) -> Option<String> {
    lines.lines().find_map(|line| {
        let (number, places) = line.split_once("Profile ID")?.1.trim().split_once(' ')?;
        (number.parse() == Ok(id)).then(|| places.split_whitespace().last().unwrap_or_default().to_owned())
    })
}

/// `| 0  MIG 1g.10gb  19  9  2:1 |`
fn gpu_instances(table: &str) -> Vec<GpuInstance> {
    let row = |line: &str| {
        let mut words = line.strip_prefix('|')?.split_whitespace().skip_while(|word| *word != "MIG").skip(2);
        let (profile, id) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(GpuInstance { id, profile, place: words.next()?.to_owned() })
    };
    table.lines().filter_map(row).collect()
}

/// The MIG devices that `nvidia-smi -L` lists below a card.
fn devices(list: &str, index: &str) -> Vec<String> {
    let head = format!("GPU {index}:");
    let below = list.lines().skip_while(|line| !line.starts_with(&head)).skip(1);
    let below = below.take_while(|line| !line.starts_with("GPU "));
    below.filter_map(|line| Some(line.split_once("(UUID: ")?.1.trim_end().trim_end_matches(')').to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_user_guide_are_read() {
        let table = "\
+-----------------------------------------------------------------------------+
| GPU instance profiles:                                                      |
| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                              Free/Total   GiB              CE    JPEG  OFA  |
|=============================================================================|
|   0  MIG 1g.5gb        19     7/7        4.75       No     14     0     0   |
|                                                             1     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 1g.5gb+me     20     1/1        4.75       No     14     1     0   |
|                                                             1     1     1   |
+-----------------------------------------------------------------------------+";
        let lines = "GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1\nGPU  0 Profile ID 20 Placements: {0,1}:1\n\
                     GPU  0 Profile ID  0 Placement : {0}:8\n";
        let profile = |id, name: &str, places: &str| Profile {
            id,
            name: name.to_owned(),
            gibibytes: "4.75".to_owned(),
            multiprocessors: 14,
            places: places.to_owned(),
        };
        let known = [profile(19, "1g.5gb", "{0,1,2,3,4,5,6}:1"), profile(20, "1g.5gb+me", "{0,1}:1")];
        assert_eq!(profiles(table, lines), known);
        assert_eq!(places(lines, 0).as_deref(), Some("{0}:8"));
        let table = "\
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|   0  MIG 1g.5gb          19        9          2:1     |
|   0  MIG 1g.5gb+me       20        7          0:1     |";
        let instance = |id, profile, place: &str| GpuInstance { id, profile, place: place.to_owned() };
        assert_eq!(gpu_instances(table), [instance(9, 19, "2:1"), instance(7, 20, "0:1")]);
    }

    #[test]
    fn the_devices_of_one_card_are_told_from_those_of_another() {
        let list = "GPU 0: NVIDIA A100 (UUID: GPU-a)\n  MIG 1g.5gb     Device  0: (UUID: MIG-b)\n\
                    GPU 1: NVIDIA A100 (UUID: GPU-c)\n  MIG 1g.5gb     Device  0: (UUID: MIG-d)\n\
                    \x20 MIG 1g.5gb     Device  1: (UUID: MIG-e)\n";
        assert_eq!(devices(list, "0"), ["MIG-b"]);
        assert_eq!(devices(list, "1"), ["MIG-d", "MIG-e"]);
    }
}
