//! `status` and `wait`: a question over a unix socket in the container's own file system.
//!
//! ```text
//! question: "status" (all memory is verified) or "wait STEP", newline
//! answer:   a report, or "error TEXT", newline
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use crate::report::Report;
use crate::work::Shared;

/// Tried in this order, by who listens and by who asks.
pub const PLACES: [&str; 3] = ["/run/workload.sock", "/tmp/workload.sock", "/workload.sock"];

/// The longest line either side reads: 64 cards fit.
const LONGEST_LINE: u64 = 16 << 10;

fn places(asked: Option<&str>) -> impl Iterator<Item = &str> {
    asked.into_iter().chain(PLACES.into_iter().filter(move |_| asked.is_none()))
}

/// Listens at `asked`, or the first place of [`PLACES`] that can be had.
pub fn listen(asked: Option<&str>) -> Result<UnixListener, String> {
    let mut why = String::new();
    for path in places(asked) {
        let _ = std::fs::remove_file(path);
        match UnixListener::bind(path) {
            Ok(listener) => return Ok(listener),
            Err(error) => why = format!("cannot listen at {path}: {error}"),
        }
    }
    Err(why)
}

fn read_line(stream: &UnixStream) -> Result<String, String> {
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST_LINE)).read_line(&mut line).map_err(|e| e.to_string())?;
    Ok(line.trim_end().to_owned())
}

/// Answers one question.
pub fn answer(shared: &Shared, mut stream: &UnixStream) {
    let answer = read_line(stream).and_then(|question| report(shared, &question));
    let _ = match answer {
        Ok(report) => writeln!(stream, "{report}"),
        Err(why) => writeln!(stream, "error {why}"),
    };
}

fn report(shared: &Shared, question: &str) -> Result<Report, String> {
    match question.split_once(' ') {
        None if question == "status" => shared.verified(),
        Some(("wait", step)) => {
            shared.wait_for(step.parse().map_err(|_| format!("{step:?} is no step"))?);
            shared.report()
        }
        _ => Err(format!("unknown question {question:?}")),
    }
}

/// Asks the workload, prints its answer as JSON, and fails where the answer is wrong.
pub fn ask(asked: Option<&str>, at_least: Option<u64>) -> Result<(), String> {
    let mut why = String::new();
    for path in places(asked) {
        match UnixStream::connect(path) {
            Ok(stream) => return question(&stream, at_least),
            Err(error) => why = format!("no workload answers at {path}: {error}"),
        }
    }
    Err(why)
}

fn question(mut stream: &UnixStream, at_least: Option<u64>) -> Result<(), String> {
    let question = at_least.map_or_else(|| "status".to_owned(), |step| format!("wait {step}"));
    writeln!(stream, "{question}").map_err(|e| format!("the workload has gone: {e}"))?;
    let line = read_line(stream)?;
    if let Some(why) = line.strip_prefix("error ") {
        return Err(format!("the workload does not answer: {why}"));
    }
    let report: Report = line.parse()?;
    println!("{}", report.json());
    report.verdict()
}
