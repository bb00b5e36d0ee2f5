//! A card that a check changes, and how it was: written down before anything is changed. Whoever has started the check
//! makes the card what it was, once the check has ended, however it has; else the end of the run, else the next run.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::check::Stop;
use crate::driver_program::{alone, smi};
use crate::mig;

/// Its name in the folder of a run.
const FILE: &str = "changed-card";
/// Longest wait until a card is as it was: what has used it may still be ending.
const DEADLINE: Duration = Duration::from_secs(20);

/// Writes down, before it is changed, that this card has no instances and whether it is in MIG mode.
///
/// # Errors
/// That it cannot be written down: then nothing may be changed.
pub fn before_change(card: &str, was_on: bool) -> Result<(), String> {
    let file = file()?;
    let text = format!("{card} {}", if was_on { "on" } else { "off" });
    fs::write(&file, text).map_err(|err| format!("write {}: {err}", file.display()))
}

/// Makes what the check that has just ended has left changed as it was, if it has.
///
/// # Errors
/// What could not be done, and what to type.
pub fn after_check() -> Result<(), String> {
    undo(&file()?)
}

/// The same for a run that has its files in `scratch`.
///
/// # Errors
/// As [`after_check`].
pub fn after_run(scratch: &Path) -> Result<(), String> {
    undo(&scratch.join(FILE))
}

fn file() -> Result<PathBuf, String> {
    let folder = std::env::var_os("BATON_KIT_SCRATCH").ok_or("BATON_KIT_SCRATCH is not set")?;
    Ok(Path::new(&folder).join(FILE))
}

fn undo(file: &Path) -> Result<(), String> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(()),
        Err(err) => return Err(format!("read {}: {err}", file.display())),
    };
    let (card, was_on) = (text.split(' ').next().unwrap_or_default(), text.ends_with("on"));
    let end = Instant::now() + DEADLINE;
    loop {
        // Each is refused where there is nothing to do; what counts is how the card is then.
        for words in [&["mig", "-i", card, "-dci"][..], &["mig", "-i", card, "-dgi"]] {
            let _ = smi(words, alone);
        }
        let mode = if was_on { Ok(String::new()) } else { smi(&["-i", card, "-mig", "0"], alone) };
        match mig::is_on(card) {
            Ok(is_on) if is_on == was_on && mig::gpu_instances_of(card).is_empty() => {
                return fs::remove_file(file).map_err(|err| format!("remove {}: {err}", file.display()));
            }
            _ if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
            is => {
                let said = match mode {
                    Ok(said) | Err(Stop::Failed(said) | Stop::CannotRun(said)) => said,
                };
                let todo = format!("`nvidia-smi mig -i {card} -dci; nvidia-smi mig -i {card} -dgi");
                let todo = if was_on { format!("{todo}`") } else { format!("{todo}; nvidia-smi -i {card} -mig 0`") };
                return Err(format!("card {card} is not as it was ({is:?}, {}): {todo}", said.trim()));
            }
        }
    }
}
