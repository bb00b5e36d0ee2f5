//! A card in MIG mode and instances on it, by `nvidia-smi`, as an operator makes them.

use crate::check::Stop;
use crate::driver_program::smi;
use crate::undo::Undo;

/// Set where the kit was allowed to switch a card's MIG mode.
pub const ALLOWED: &str = "BATON_KIT_MIG";

/// A card in MIG mode. What is made on it, and the mode where it was off, is undone when this is dropped.
#[derive(Debug)]
pub struct MigCard {
    index: String,
    /// The product's name.
    pub model: String,
    undo: Undo,
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
    /// The first card in MIG mode; where there is none and it was allowed, the first that goes into it.
    pub fn take() -> Result<MigCard, Stop> {
        let cards = modes()?;
        let card = |index: &str, model: &str| -> Result<MigCard, Stop> {
            Ok(MigCard { index: index.to_owned(), model: model.to_owned(), undo: Undo::of_run()? })
        };
        if let Some((index, model, _)) = cards.iter().find(|(_, _, mode)| mode == "Enabled") {
            return card(index, model);
        }
        let Some((index, model, _)) = cards.iter().find(|(_, _, mode)| mode == "Disabled") else {
            return Err(Stop::CannotRun("no card has MIG".to_owned()));
        };
        if std::env::var_os(ALLOWED).is_none() {
            let why = "no card is in MIG mode; with --mig the kit switches one that is idle, and back";
            return Err(Stop::CannotRun(why.to_owned()));
        }
        let taken = card(index, model)?;
        taken.undo.add(&["-i", index, "-mig", "0"])?;
        let said = smi(&["-i", index, "-mig", "1"])?;
        match modes()?.into_iter().find(|(other, _, _)| other == index) {
            Some((_, _, mode)) if mode == "Enabled" => Ok(taken),
            _ => Err(Stop::CannotRun(format!("card {index} does not go into MIG mode: {}", said.trim()))),
        }
    }

    fn mig(&self, words: &[&str]) -> Result<String, Stop> {
        smi(&[&["mig", "-i", &self.index], words].concat())
    }

    /// What it can be cut into.
    pub fn profiles(&self) -> Result<Vec<Profile>, Stop> {
        Ok(profiles(&self.mig(&["-lgip"])?, &self.mig(&["-lgipp"])?))
    }

    /// The GPU instances that there are.
    pub fn gpu_instances(&self) -> Vec<GpuInstance> {
        // It fails where there is none.
        self.mig(&["-lgi"]).map(|text| gpu_instances(&text)).unwrap_or_default()
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
        let made = made.ok_or_else(|| Stop::Failed(format!("{}\nbut -lgi lists none", said.trim())))?;
        let id = made.id.to_string();
        self.undo.add(&self.destroying(&id, "-dgi"))?;
        if with_compute {
            self.undo.add(&self.destroying(&id, "-dci"))?;
        }
        Ok(Some(made))
    }

    /// The command that destroys a GPU instance, or its compute instances.
    fn destroying<'a>(&'a self, id: &'a str, verb: &'a str) -> [&'a str; 6] {
        ["mig", "-i", &self.index, "-gi", id, verb]
    }

    /// Destroys one without a compute instance.
    pub fn destroy(&self, instance: &GpuInstance) -> Result<(), Stop> {
        self.undo.run(&self.destroying(&instance.id.to_string(), "-dgi"))
    }

    /// Makes the smallest MIG device; its UUID.
    pub fn device(&self) -> Result<String, Stop> {
        let before = devices(&smi(&["-L"])?, &self.index);
        let least = |profile: &&Profile| (profile.multiprocessors, profile.gibibytes.len(), profile.gibibytes.clone());
        let profiles = self.profiles()?;
        let smallest = profiles.iter().filter(|profile| !profile.name.contains('+')).min_by_key(least);
        let smallest = smallest.ok_or_else(|| Stop::Failed("it lists no profile".to_owned()))?;
        if self.make(smallest.id, true)?.is_none() {
            return Err(Stop::CannotRun(format!("card {} has no room for a {}", self.index, smallest.name)));
        }
        let new = devices(&smi(&["-L"])?, &self.index).into_iter().find(|uuid| !before.contains(uuid));
        new.ok_or_else(|| Stop::Failed("nvidia-smi -L does not list the new MIG device".to_owned()))
    }
}

/// Index, name and MIG mode of each card.
fn modes() -> Result<Vec<(String, String, String)>, Stop> {
    let text = smi(&["--query-gpu=index,name,mig.mode.current", "--format=csv,noheader"])?;
    let row = |line: &str| {
        let mut cells = line.split(',').map(|cell| cell.trim().to_owned());
        Some((cells.next()?, cells.next()?, cells.next()?))
    };
    Ok(text.lines().filter_map(row).collect())
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
