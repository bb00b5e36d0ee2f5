//! CUDA programs whose results are known beforehand, one for each way of using a card that a save must survive.
//!
//! They are ordinary programs: they load `libcuda.so.1` and know nothing of what saves and restores them.

mod busy;
mod cards;
mod family;
mod hold;
mod hungry;
mod report;
mod socket;
mod streams;
mod tally;
mod train;
mod work;

use std::process::ExitCode;
use std::time::Duration;

use baton_workload::size;

use crate::work::{Pace, Work, run};

const USAGE: &str = "usage: workload KIND [--interval-ms N] [--steps N] [--socket PATH]
       workload status [--socket PATH]
       workload wait STEP [--socket PATH]
KIND:  train [--weights N]      weights that every step changes
       family [--children N]    several processes, each with a context
       cards                    one process, all cards
       streams                  pinned memory, two streams, always something in flight
       hold BYTES[K|M|G]        memory filled with a pattern that is verified
       hungry [--leave BYTES]   allocates without end, in all of the card or in what it leaves itself
       busy MS                  the card is busy for that long in each step
       managed BYTES            memory that the driver moves, which no driver saves";

/// What was asked for on the command line.
#[derive(Debug, PartialEq, Eq)]
enum Verb {
    Run(Kind),
    Member,
    Ask { at_least: Option<u64> },
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Train { weights: usize },
    Family { children: usize },
    Cards,
    Streams,
    Hold { bytes: u64 },
    Hungry { leave: Option<u64> },
    Busy { milliseconds: u64, managed: usize },
}

impl Kind {
    fn begin(&self, pace: &Pace) -> Result<Box<dyn Work>, String> {
        Ok(match self {
            Kind::Train { weights } => Box::new(train::Train::begin(*weights)?),
            Kind::Family { children } => Box::new(family::Family::begin(*children, pace)?),
            Kind::Cards => Box::new(cards::Cards::begin()?),
            Kind::Streams => Box::new(streams::Streams::begin()?),
            Kind::Hold { bytes } => Box::new(hold::Hold::begin(*bytes)?),
            Kind::Busy { milliseconds, managed } => Box::new(busy::Busy::begin(*milliseconds, *managed)?),
            Kind::Hungry { leave } => Box::new(hungry::Hungry::begin(*leave)?),
        })
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match read(&arguments) {
        Ok((Verb::Run(kind), pace)) => kind.begin(&pace).and_then(|work| run(work, &pace)),
        Ok((Verb::Member, pace)) => family::run_member(&pace),
        Ok((Verb::Ask { at_least }, pace)) => socket::ask(pace.socket.as_deref(), at_least),
        Err(why) => Err(format!("{why}\n{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("workload: {why}");
            ExitCode::FAILURE
        }
    }
}

fn read(arguments: &[String]) -> Result<(Verb, Pace), String> {
    let mut pace = Pace { interval: Duration::from_millis(10), steps: None, socket: None };
    let (mut weights, mut children, mut leave, mut words) = (1024, 2, None, Vec::new());
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        let mut value = || left.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--interval-ms" => pace.interval = Duration::from_millis(number(value()?)?),
            "--steps" => pace.steps = Some(number(value()?)?),
            "--socket" => pace.socket = Some(value()?.clone()),
            "--weights" => weights = number(value()?)?,
            "--children" => children = number(value()?)?,
            "--leave" => leave = Some(size::bytes(value()?)?),
            flag if flag.starts_with("--") => return Err(format!("unknown option {flag}")),
            word => words.push(word),
        }
    }
    let verb = match words.as_slice() {
        ["train"] if weights > 0 => Verb::Run(Kind::Train { weights }),
        ["family"] => Verb::Run(Kind::Family { children }),
        ["cards"] => Verb::Run(Kind::Cards),
        ["streams"] => Verb::Run(Kind::Streams),
        ["hold", bytes] => Verb::Run(Kind::Hold { bytes: size::bytes(bytes)?.max(1) }),
        ["hungry"] => Verb::Run(Kind::Hungry { leave }),
        ["busy", time] => Verb::Run(Kind::Busy { milliseconds: number(time)?, managed: 0 }),
        ["managed", bytes] => Verb::Run(Kind::Busy { milliseconds: 0, managed: size::bytes(bytes)? as usize }),
        [family::MEMBER] => Verb::Member,
        ["status"] => Verb::Ask { at_least: None },
        ["wait", step] => Verb::Ask { at_least: Some(number(step)?) },
        other => return Err(format!("cannot read {:?}", other.join(" "))),
    };
    Ok((verb, pace))
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verb(line: &str) -> Result<Verb, String> {
        read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).map(|(verb, _)| verb)
    }

    #[test]
    fn the_command_line_is_read() {
        assert_eq!(verb("train --weights 7"), Ok(Verb::Run(Kind::Train { weights: 7 })));
        assert_eq!(verb("hold 4G --interval-ms 1"), Ok(Verb::Run(Kind::Hold { bytes: 4 << 30 })));
        assert_eq!(verb("hungry --leave 1M"), Ok(Verb::Run(Kind::Hungry { leave: Some(1 << 20) })));
        assert_eq!(verb("wait 12 --socket /s"), Ok(Verb::Ask { at_least: Some(12) }));
        for wrong in ["", "fly", "hold", "hold much", "wait", "wait x", "train --weights 0", "train --steps", "cards 2"]
        {
            assert!(verb(wrong).is_err(), "{wrong}");
        }
    }
}
