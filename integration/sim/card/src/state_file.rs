//! What is set on the cards and how they are cut, beside the description of the hardware: written whole before an
//! administrator hears that it is done, so that whatever ends this process, what was said to be done is.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use baton_sim_wire::{GpuInstance, Settings};
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::{administer, whole_file};

/// Name of the file at the top of the driver root.
const FILE: &str = "cards.json";
/// Longest file that is read, in bytes: sixteen cards with seven instances of eight each are far less.
const LONGEST: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    card: String,
    settings: Settings,
    instances: Vec<GpuInstance>,
}

/// The state file of one driver root.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// The file below that root, whether or not it is there.
    pub fn below(root: &Path) -> StateFile {
        StateFile { path: root.join(FILE) }
    }

    /// Puts what is written down onto the cards. Cards that are not named are as they come from the factory.
    ///
    /// # Errors
    /// A sentence: when the file cannot be read, or tells of cards or instances that cannot be.
    pub fn load(&self, accounts: &mut [Account]) -> Result<(), String> {
        let name = self.path.display();
        let text = match whole_file::read(&self.path, LONGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(format!("cannot read {name}: {error}")),
        };
        let entries: Vec<Entry> =
            serde_json::from_slice(&text).map_err(|error| format!("{name} is damaged: {error}"))?;
        for entry in entries {
            let account = accounts.iter_mut().find(|account| account.card.uuid == entry.card);
            let account = account.ok_or_else(|| format!("{name} tells of {}, which is not here", entry.card))?;
            let possible = account
                .model()
                .is_some_and(|model| administer::is_possible(model, &entry.card, entry.settings.mig, &entry.instances));
            if !possible {
                return Err(format!("{name} tells of instances on {} that cannot be", entry.card));
            }
            (account.settings, account.instances) = (entry.settings, entry.instances);
        }
        Ok(())
    }

    /// Writes what is on the cards.
    ///
    /// # Errors
    /// Those of the file system; the file is then as it was.
    pub fn save(&self, accounts: &[Account]) -> io::Result<()> {
        let entry = |account: &Account| Entry {
            card: account.card.uuid.clone(),
            settings: account.settings,
            instances: account.instances.clone(),
        };
        let entries: Vec<Entry> = accounts.iter().map(entry).collect();
        let fresh = self.path.with_extension("new");
        let mut file = fs::File::create(&fresh)?;
        file.write_all(&serde_json::to_vec_pretty(&entries)?)?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)
    }

    /// Forgets everything.
    ///
    /// # Errors
    /// Those of the file system, but for a file that is not there.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;
    use baton_sim_wire::{Change, Timeslice};

    fn accounts() -> Vec<Account> {
        spec::Hardware::from_spec("h100x2", "a", "580.95.05")
            .expect("valid")
            .cards
            .into_iter()
            .map(Account::of)
            .collect()
    }

    #[test]
    fn what_is_set_is_there_again() {
        let folder = tempfile::tempdir().expect("folder");
        let file = StateFile::below(folder.path());
        let mut cards = accounts();
        file.load(&mut cards).expect("nothing written yet");
        let cut = [Change::Mig(true), Change::CreateGpuInstance { profile: 0, start: None }];
        for change in cut.into_iter().chain([Change::Timeslice(Timeslice::Long)]) {
            administer::apply(&mut cards[1], change).expect("possible");
        }
        file.save(&cards).expect("written");
        let mut again = accounts();
        file.load(&mut again).expect("read");
        assert_eq!((again[1].settings, &again[1].instances), (cards[1].settings, &cards[1].instances));
        assert!(!again[0].settings.mig);
        assert_eq!(again[1].settings.timeslice, Timeslice::Long);
        file.remove().expect("removed");
        file.load(&mut accounts()).expect("nothing again");
    }

    #[test]
    fn a_file_from_before_timeslices_is_read() {
        let folder = tempfile::tempdir().expect("folder");
        let mut cards = accounts();
        let text = format!(
            r#"[{{"card":"{}","settings":{{"mig":false,"pending_mig":false,"compute_mode":"ExclusiveProcess",
                "persistence":true}},"instances":[]}}]"#,
            cards[0].card.uuid
        );
        fs::write(folder.path().join(FILE), text).expect("written");
        StateFile::below(folder.path()).load(&mut cards).expect("read");
        let settings = cards[0].settings;
        assert_eq!((settings.compute_mode.number(), settings.timeslice), (3, Timeslice::Default));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("folder");
        let file = StateFile::below(folder.path());
        let mut cards = accounts();
        administer::apply(&mut cards[0], Change::Mig(true)).expect("idle");
        administer::apply(&mut cards[0], Change::CreateGpuInstance { profile: 0, start: None }).expect("room");
        cards[0].instances[0].id = 0;
        file.save(&cards).expect("written");
        assert!(file.load(&mut accounts()).expect_err("no such instance").contains("cannot be"));
        fs::write(folder.path().join(FILE), "[{").expect("written");
        assert!(file.load(&mut accounts()).expect_err("not JSON").contains("damaged"));
        cards[0].card.uuid = "GPU-0".to_owned();
        file.save(&cards).expect("written");
        assert!(file.load(&mut accounts()).expect_err("no such card").contains("not here"));
    }
}
