//! Running all checks, each on its own, and leaving nothing behind.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::bed::Line;
use crate::check::{Check, Outcome, Place, Word};
use crate::report::{Entry, Report};
use crate::scratch::Scratch;
use crate::stopping::{self, Running};
use crate::{checks, child, kit, machine};

/// For everything, with what it takes to end: eight minutes are promised.
const TIME: Duration = Duration::from_secs(450);

/// What a user asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Where the reports go; none: beside the kit's files.
    pub out: Option<PathBuf>,
    /// The names of the checks; none: all.
    pub only: Vec<String>,
    /// Whether the MIG mode of an idle card may be switched on for a while.
    pub mig: bool,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Something was found out, and nothing failed.
    Good,
    /// A check failed, something is left, or the run was stopped.
    Bad,
    /// Nothing could be found out here.
    Nothing,
}

/// Runs checks and writes the reports.
pub fn run(Wish { out, only, mig }: Wish) -> Result<End, String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("it needs to be run as root".to_owned());
    }
    let only = only.as_slice();
    stopping::on_signals()?;
    let begun = Instant::now();
    let kit = kit::folder()?;
    let out = out.unwrap_or(kit);
    std::fs::create_dir_all(&out).map_err(|err| format!("make {}: {err}", out.display()))?;
    let out = out.canonicalize().map_err(|err| format!("find {}: {err}", out.display()))?;
    let scratch = Scratch::make(&out)?;
    // SAFETY: this process has one thread.
    unsafe {
        if mig {
            std::env::set_var(crate::mig::ALLOWED, "1");
        } else {
            std::env::remove_var(crate::mig::ALLOWED);
        }
    }
    let chosen = |place| {
        checks::ALL.iter().filter(move |check: &&'static Check| {
            check.place == place && (only.is_empty() || only.iter().any(|name| name == check.name))
        })
    };
    let mut entries = Vec::new();
    let mut add = |entry: Entry| {
        say(&entry.line());
        entries.push(entry);
    };
    let mut driver = true;
    for check in chosen(Place::Machine) {
        let left = if driver { TIME.saturating_sub(begun.elapsed()) } else { Duration::ZERO };
        let (word, took) = child::run(check, left);
        driver &= check.name != machine::DRIVER || word.outcome == Outcome::Passed;
        let word = if driver || check.name == machine::DRIVER { word } else { no_driver() };
        add(Entry::of(check, word, took.as_secs_f64()));
    }
    let suite: Vec<&'static Check> = chosen(Place::Bed).collect();
    if !driver {
        suite.iter().for_each(|check| add(Entry::of(check, no_driver(), 0.0)));
    } else if !suite.is_empty() {
        in_bed(&suite, TIME.saturating_sub(begun.elapsed()), &mut add);
    }
    let left = scratch.clear();
    let report = Report { machine: machine::facts(), checks: entries, seconds: begun.elapsed().as_secs_f64(), left };
    report.write(&out)?;
    let (passed, failed) = (report.count(Outcome::Passed), report.count(Outcome::Failed));
    say(&format!("{passed} passed, {failed} failed, {} cannot run here", report.count(Outcome::CannotRun)));
    report.left.iter().for_each(|left| say(&format!("LEFT BEHIND {left}")));
    say(&format!("see {}", out.join("report.txt").display()));
    Ok(match (failed == 0 && report.left.is_empty() && !stopping::stopped(), passed) {
        (false, _) => End::Bad,
        (true, 0) => End::Nothing,
        (true, _) => End::Good,
    })
}

/// Whether or not anybody reads on: there is the report.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// For what is not tried where no driver answers.
fn no_driver() -> Word {
    child::word(Outcome::CannotRun, "the driver does not answer, or has no checkpoint API".to_owned())
}

/// Runs checks in the bed. Those that it does not get to are told as such.
fn in_bed(suite: &[&'static Check], left: Duration, add: &mut impl FnMut(Entry)) {
    let why = match lie_down(suite, left, add) {
        Ok(done) if done == suite.len() => return,
        Ok(done) => (done, "the bed ended before it".to_owned()),
        Err((done, why)) => (done, why),
    };
    let text = if stopping::stopped() { stopping::WHY.to_owned() } else { format!("no bed: {}", why.1) };
    for check in &suite[why.0..] {
        // What keeps the kit from having namespaces is the machine's; Baton was not tried.
        add(Entry::of(check, child::word(Outcome::CannotRun, text.clone()), 0.0));
    }
}

fn lie_down(suite: &[&'static Check], left: Duration, add: &mut impl FnMut(Entry)) -> Result<usize, (usize, String)> {
    let start = || -> Result<_, String> {
        kit::ends_with_us(&mut kit::program("baton-gpu-kit")?)
            .arg("bed")
            .args(suite.iter().map(|check| check.name))
            .env("BATON_KIT_SECONDS", left.as_secs().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|err| format!("start the bed: {err}"))
    };
    let mut bed = start().map_err(|why| (0, why))?;
    let running = Running::group(bed.id());
    let mut done = 0;
    for line in bed.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
        let Ok(line) = serde_json::from_str::<Line>(&line) else { continue };
        if let Ok(check) = checks::find(&line.name) {
            add(Entry::of(check, line.word, line.seconds));
            done += 1;
        }
    }
    drop(running);
    let ended = bed.wait_with_output().map_err(|err| (done, err.to_string()))?;
    if ended.status.success() {
        return Ok(done);
    }
    let said = child::tail(&String::from_utf8_lossy(&ended.stderr));
    Err((done, if said.is_empty() { format!("it ended with {}", ended.status) } else { said }))
}
