//! `status` and `wait`: a question over a unix socket in the container's own file system.
//!
//! ```text
//! question: "status" (all memory is verified) or "wait STEP", newline
//! answer:   a report, or "error TEXT", newline
//! ```

use std::io::Write;
use std::os::unix::net::UnixStream;

use baton_workload::asking::{self, Asking};

use crate::report::Report;
use crate::work::Shared;

/// Where; a line has room for 64 cards.
pub const SOCKET: Asking = Asking {
    who: "workload",
    places: ["/run/workload.sock", "/tmp/workload.sock", "/workload.sock"],
    longest_line: 16 << 10,
};

/// Answers one question.
pub fn answer(shared: &Shared, mut stream: &UnixStream) {
    let answer = SOCKET.read_line(stream).and_then(|question| report(shared, &question));
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
    let mut stream = SOCKET.connect(asked)?;
    writeln!(stream, "{}", asking::question(at_least)).map_err(|e| format!("the workload has gone: {e}"))?;
    let line = SOCKET.read_line(&stream)?;
    if let Some(why) = line.strip_prefix("error ") {
        return Err(format!("the workload does not answer: {why}"));
    }
    let report: Report = line.parse()?;
    println!("{}", report.json());
    report.verdict()
}
