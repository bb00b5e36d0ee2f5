//! A workload that counts in GPU memory, one step at a time, with a checksum that is known beforehand.
//!
//! It is an ordinary CUDA program: it loads `libcuda.so.1` and knows nothing of what saves and restores it.

mod file_lock;
mod node;
mod place;
mod report;
mod run;

use std::process::ExitCode;

use baton_workload::size;

const USAGE: &str = "usage: counter [--interval-ms N] [--memory BYTES[K|M|G]] [--cpu] [--socket PATH]
       counter status [--socket PATH]
       counter wait STEP [--socket PATH]
       counter open MAJOR MINOR
       counter lock|hold posix|flock FILE";

/// What was asked for on the command line.
#[derive(Debug, PartialEq, Eq)]
enum Verb {
    Run(run::Settings),
    Status { socket: Option<String>, at_least: Option<u64> },
    Open { major: u32, minor: u32 },
    Lock { kind: file_lock::Kind, file: String, hold: bool },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match read(&arguments) {
        Ok(Verb::Run(settings)) => run::run(&settings),
        Ok(Verb::Status { socket, at_least }) => report::ask(socket.as_deref(), at_least),
        Ok(Verb::Open { major, minor }) => node::open(major, minor),
        Ok(Verb::Lock { kind, file, hold: false }) => file_lock::take(kind, &file).map(drop),
        Ok(Verb::Lock { kind, file, hold: true }) => file_lock::hold(kind, &file),
        Err(why) => Err(format!("{why}\n{USAGE}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("counter: {why}");
            ExitCode::FAILURE
        }
    }
}

fn read(arguments: &[String]) -> Result<Verb, String> {
    let (mut settings, mut words) = (run::Settings::default(), Vec::new());
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        let mut value = || left.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--interval-ms" => settings.interval_ms = number(value()?)?,
            "--memory" => settings.memory = size::bytes(value()?)?,
            "--socket" => settings.socket = Some(value()?.clone()),
            "--cpu" => settings.cpu = true,
            flag if flag.starts_with("--") => return Err(format!("unknown option {flag}")),
            word => words.push(word),
        }
    }
    match words.as_slice() {
        [] => Ok(Verb::Run(settings)),
        ["status"] => Ok(Verb::Status { socket: settings.socket, at_least: None }),
        ["wait", step] => Ok(Verb::Status { socket: settings.socket, at_least: Some(number(step)?) }),
        ["open", major, minor] => Ok(Verb::Open { major: number(major)?, minor: number(minor)? }),
        [verb @ ("lock" | "hold"), kind, file] => {
            Ok(Verb::Lock { kind: kind.parse()?, file: (*file).to_owned(), hold: *verb == "hold" })
        }
        other => Err(format!("cannot read {}", other.join(" "))),
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verb(line: &str) -> Result<Verb, String> {
        read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_read() {
        let wanted = run::Settings { interval_ms: 0, memory: 1 << 20, cpu: true, socket: None };
        assert_eq!(verb("--interval-ms 0 --memory 1M --cpu"), Ok(Verb::Run(wanted)));
        assert_eq!(verb("wait 12"), Ok(Verb::Status { socket: None, at_least: Some(12) }));
        assert_eq!(verb("open 195 0"), Ok(Verb::Open { major: 195, minor: 0 }));
        let held = Verb::Lock { kind: file_lock::Kind::Flock, file: "/f".to_owned(), hold: true };
        assert_eq!(verb("hold flock /f"), Ok(held));
        for wrong in
            ["lock maybe /f", "hold posix", "fly", "wait", "wait x", "open 1", "--memory", "--warp 9", "status now"]
        {
            assert!(verb(wrong).is_err(), "{wrong}");
        }
    }
}
