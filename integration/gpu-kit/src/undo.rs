//! What was changed on the machine's cards, and how it is changed back: written down when it is done, so that it is also
//! changed back where the check that did it was ended.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::check::Stop;
use crate::driver_program::smi;

/// Its name in the folder of a run.
const FILE: &str = "undo";

/// The commands of `nvidia-smi` that change back what a check has changed; run, the last first, when dropped.
#[derive(Debug)]
pub struct Undo {
    file: PathBuf,
}

impl Undo {
    /// Of the run that this check belongs to.
    pub fn of_run() -> Result<Undo, String> {
        let folder = std::env::var_os("BATON_KIT_SCRATCH").ok_or("BATON_KIT_SCRATCH is not set")?;
        Ok(Undo { file: Path::new(&folder).join(FILE) })
    }

    /// Adds a command; each of its words is one without white space.
    pub fn add(&self, words: &[&str]) -> Result<(), String> {
        let open = OpenOptions::new().create(true).append(true).open(&self.file);
        let written = open.and_then(|mut file| writeln!(file, "{}", words.join(" ")));
        written.map_err(|err| format!("write {}: {err}", self.file.display()))
    }

    /// Runs one of the commands now, so that it is no longer left to be run.
    pub fn run(&self, words: &[&str]) -> Result<(), Stop> {
        smi(words)?;
        let failed = |err: std::io::Error| format!("change {}: {err}", self.file.display());
        let text = fs::read_to_string(&self.file).map_err(failed)?;
        let line = words.join(" ");
        let others: String = text.lines().filter(|other| *other != line).map(|other| format!("{other}\n")).collect();
        fs::write(&self.file, others).map_err(failed)?;
        Ok(())
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for why in undo(&self.file) {
            eprintln!("{why}");
        }
    }
}

/// Changes back what is left of the checks of a run that has its files in `scratch`; what could not be.
pub fn left_over(scratch: &Path) -> Vec<String> {
    undo(&scratch.join(FILE))
}

/// Runs the commands of a file, the last first. Those that fail are kept, for the next who comes.
fn undo(file: &Path) -> Vec<String> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(err) if err.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(err) => return vec![format!("read {}: {err}", file.display())],
    };
    let (mut kept, mut failed) = (Vec::new(), Vec::new());
    for line in text.lines().rev() {
        if let Err(Stop::Failed(why) | Stop::CannotRun(why)) = smi(&line.split_whitespace().collect::<Vec<_>>()) {
            kept.insert(0, format!("{line}\n"));
            failed.push(why);
        }
    }
    let written = if kept.is_empty() { fs::remove_file(file) } else { fs::write(file, kept.concat()) };
    failed.extend(written.err().map(|err| format!("write {}: {err}", file.display())));
    failed
}
