//! `list`, `ps`, `events` and `features`: what there is and what it does.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::Duration;

use baton_engine::Listed;
use baton_fault::{Attempt, Code, Fault, Result};
use serde_json::json;

use super::{print_line, print_pretty};
use crate::globals::Globals;
use crate::options::{Known, Options, Words, switch, value};

/// Time between two measurements unless told otherwise.
const INTERVAL: Duration = Duration::from_secs(5);
/// Columns of a table are at least so wide, and so far apart: runc's.
const COLUMN_MIN: usize = 12;
const COLUMN_GAP: usize = 3;

/// How an answer is printed.
enum Format {
    Table,
    Json,
}

impl Format {
    fn of(options: &Options) -> Result<Format> {
        match options.text("format")? {
            None | Some("table") => Ok(Format::Table),
            Some("json") => Ok(Format::Json),
            Some(other) => Err(Fault::new(Code::Usage, format_args!("format {other:?}"), "invalid format option")
                .advise("use table or json")),
        }
    }
}

const FORMAT: Known = value("format", Some('f'));

pub fn list(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    let options = Options::read("list", args, &[FORMAT, switch("quiet", Some('q'))], Words::Mixed)?;
    options.no_words()?;
    let format = Format::of(&options)?;
    let containers = globals.engine().list()?;
    if options.is_on("quiet") {
        containers.iter().for_each(|container| say!("{}", container.id));
        return Ok(ExitCode::SUCCESS);
    }
    match format {
        // runc's list of nothing.
        Format::Json if containers.is_empty() => print_line(&json!(null)),
        Format::Json => print_line(&containers),
        Format::Table => {
            say_text!("{}", table(&containers));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn table(containers: &[Listed]) -> String {
    let row = |container: &Listed| {
        let bundle = container.bundle.display().to_string();
        let (pid, status) = (container.pid.to_string(), container.status.to_owned());
        [container.id.clone(), pid, status, bundle, container.created.clone(), container.owner.clone()]
    };
    let head = ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(containers.iter().map(row)).collect();
    let mut text = String::new();
    for row in &rows {
        for (index, cell) in row.iter().enumerate() {
            let widest = rows.iter().map(|row| row[index].chars().count()).max().unwrap_or(0);
            let width = (widest + COLUMN_GAP).max(COLUMN_MIN);
            match index + 1 == row.len() {
                true => text.push_str(cell),
                false => text.push_str(&format!("{cell:<width$}")),
            }
        }
        text.push('\n');
    }
    text
}

pub fn ps(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    let mut options = Options::read("ps", args, &[FORMAT], Words::Command)?;
    let format = Format::of(&options)?;
    let ps_args = if options.words.is_empty() { Vec::new() } else { options.words.split_off(1) };
    let pids = globals.engine().ps(&options.id()?)?;
    match format {
        Format::Json => print_line(&pids),
        Format::Table => {
            let all = run_ps(&ps_args)?;
            say_text!("{}", lines_of(&all, &pids)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What this host's `ps` says of all processes.
fn run_ps(args: &[OsString]) -> Result<String> {
    let mut command = Command::new("ps");
    match args.is_empty() {
        true => command.arg("-ef"),
        false => command.args(args),
    };
    let done =
        command.output().attempt(|| "run ps").map_err(|fault| fault.advise("install it, or pass --format json"))?;
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(Fault::new(Code::System, "run ps", why.trim()).advise("pass options that it knows"));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The lines of `ps` for these processes, by its column `PID`, with its head.
fn lines_of(text: &str, pids: &[i32]) -> Result<String> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let Some(column) = head.split_whitespace().position(|name| name == "PID") else {
        return Err(Fault::new(Code::Usage, "read the output of ps", "it has no column PID")
            .advise("pass options for ps that show it"));
    };
    let ours = |line: &&str| {
        let pid = line.split_whitespace().nth(column).and_then(|word| word.parse::<i32>().ok());
        pid.is_some_and(|pid| pids.contains(&pid))
    };
    Ok(std::iter::once(head).chain(lines.filter(ours)).map(|line| format!("{line}\n")).collect())
}

pub fn events(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    let options = Options::read("events", args, &[switch("stats", None), value("interval", None)], Words::Mixed)?;
    let interval = options.text("interval")?.map_or(Ok(INTERVAL), duration)?;
    let once = options.is_on("stats");
    let (engine, id) = (globals.engine(), options.id()?);
    if once {
        return print_line(&json!({ "type": "stats", "id": id, "data": engine.stats(&id)? }));
    }
    engine.events(&id, interval, &mut |event| {
        print_line(event)?;
        std::io::stdout().flush().attempt(|| "write to the standard output")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `5s`, `1m30s`, `200ms`: Go's form of a time, above 0.
fn duration(text: &str) -> Result<Duration> {
    let wrong = || {
        Fault::new(Code::Usage, format_args!("interval {text:?}"), "not a time above 0")
            .advise("write it as 5s or 200ms")
    };
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let unit = rest[number..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |length| number + length);
        let seconds = match &rest[number..unit] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        total += rest[..number].parse::<f64>().map_err(|_| wrong())? * seconds;
        rest = &rest[unit..];
    }
    Duration::try_from_secs_f64(total).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

pub fn features(args: &[OsString]) -> Result<ExitCode> {
    Options::read("features", args, &[], Words::Mixed)?.no_words()?;
    print_pretty(&baton_engine::features(), "    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_containers_processes_are_shown() {
        let text = "UID   PID  PPID CMD\nroot    7     1 a 8\nroot    8     7 b\n";
        assert_eq!(lines_of(text, &[8]).expect("lines"), "UID   PID  PPID CMD\nroot    8     7 b\n");
        assert!(lines_of("CMD\nx\n", &[8]).is_err());
    }

    #[test]
    fn times_are_those_of_go() {
        for (text, milliseconds) in [("5s", 5000), ("1m30s", 90_000), ("200ms", 200), ("0.5s", 500)] {
            assert_eq!(duration(text).expect(text), Duration::from_millis(milliseconds), "{text}");
        }
        for wrong in ["", "0s", "5", "s", "-5s", "5x", "5s3"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
