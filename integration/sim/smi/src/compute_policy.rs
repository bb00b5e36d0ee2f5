//! `nvidia-smi compute-policy`: how long processes take turns on a card.

use crate::arguments::Words;
use crate::device::Device;
use crate::outcome::{Failure, Outcome};

/// What `-h` prints, and what is printed where nothing is asked for.
pub const USAGE: &str = "\
    Compute Policy -- Control and list compute policies.

    Usage: nvidia-smi compute-policy [options]

    [-i | --id]:      Target a specific GPU: index, UUID or PCI bus id, or a list of them
    [-l | --list]:    List all compute policies
    [--set-timeslice]: Set how long processes take turns: 0/DEFAULT, 1/SHORT, 2/MEDIUM, 3/LONG
    [-h | --help]:    Display help information
";

/// As nvidia-smi names timeslices, by its numbers.
const NAMES: [&str; 4] = ["DEFAULT", "SHORT", "MEDIUM", "LONG"];

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// `-l`
    List,
    /// `--set-timeslice`
    SetTimeslice(Timeslice),
}

/// A timeslice, as nvidia-smi numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeslice(usize);

impl Timeslice {
    fn parse(text: &str) -> Option<Timeslice> {
        let number = text.parse().ok().filter(|number| *number < NAMES.len());
        number.or_else(|| NAMES.iter().position(|name| name.eq_ignore_ascii_case(text))).map(Timeslice)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0 as u32
    }

    /// `SHORT`.
    pub fn name(self) -> &'static str {
        NAMES[self.0]
    }
}

/// The words behind `compute-policy`, and which cards they are for; nothing where help is wanted.
pub fn parse(words: &mut Words<'_>) -> Outcome<(Option<Command>, Option<String>)> {
    let (mut command, mut selection) = (None, None);
    while let Some(word) = words.next() {
        match word {
            "-h" | "--help" => return Ok((None, None)),
            "-i" | "--id" => selection = Some(words.value(word)?.to_owned()),
            "-l" | "--list" => command = Some(Command::List),
            "--set-timeslice" => {
                let value = words.value(word)?;
                let wrong = || Failure::usage(format!("{value} is not a valid argument for option {word}"));
                command = Some(Command::SetTimeslice(Timeslice::parse(value).ok_or_else(wrong)?));
            }
            other => {
                let text = format!("Invalid option {other}. \"nvidia-smi compute-policy -h\" for more information.");
                return Err(Failure::usage(text));
            }
        }
    }
    Ok((command, selection))
}

/// What each card is set to.
pub fn list(devices: &[Device<'_>]) -> Outcome {
    for device in devices {
        let told = |code| Failure::of(code, format!("Unable to list compute policies: {}", device.nvml.text_of(code)));
        let number = device.timeslice().map_err(told)?;
        let name = NAMES.get(number as usize).copied().unwrap_or("Unknown");
        println!("GPU {}: Timeslice: {name}", device.bus_id().map_err(told)?);
    }
    Ok(())
}
