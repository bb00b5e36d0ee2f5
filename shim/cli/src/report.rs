//! How a failure is told: one line on the standard error, and one in the log file where there is one.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;

use baton_fault::{Code, Fault};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::globals::Globals;

/// Tells of a failure; the exit status that belongs to it, `status` when that is given.
pub fn failure(globals: &Globals, fault: &Fault, status: Option<u8>) -> ExitCode {
    eprintln!("baton: {fault}");
    if let Some(log) = &globals.log {
        let line =
            if globals.log_json { json_line(fault) } else { format!("level=error msg={:?}\n", fault.to_string()) };
        // A log that cannot be written is no second failure: the line above has told it all.
        let _ =
            OpenOptions::new().create(true).append(true).open(log).and_then(|mut file| file.write_all(line.as_bytes()));
    }
    match (status, fault.code) {
        (Some(status), _) => ExitCode::from(status),
        (None, Code::Usage) => ExitCode::from(2),
        (None, _) => ExitCode::FAILURE,
    }
}

/// A line of runc's JSON log.
fn json_line(fault: &Fault) -> String {
    let now = OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default();
    format!("{}\n", serde_json::json!({ "level": "error", "msg": fault.to_string(), "time": now }))
}

/// Writes to standard output. A reader that has gone, as `head` does, has read what it wanted; and what the verb has done
/// is done, so it does not fail for what cannot be told.
pub fn out(text: std::fmt::Arguments) {
    if let Err(err) = std::io::stdout().write_fmt(text)
        && err.kind() != std::io::ErrorKind::BrokenPipe
    {
        eprintln!("baton: write to standard output: {err}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_the_form_of_runc() {
        let fault = Fault::new(Code::NotFound, "container \"x\"", "does not exist");
        let line = json_line(&fault);
        assert!(line.ends_with("}\n") && line.lines().count() == 1);
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(value["level"], "error");
        assert_eq!(value["msg"], "NOT_FOUND: container \"x\": does not exist");
        assert!(value["time"].as_str().expect("time").contains('T'));
    }
}
