//! The two reports: `report.json` for programs, `report.txt` for people.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use crate::check::{Check, Outcome, Word};

/// All that was found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What the machine is.
    pub machine: Vec<(&'static str, String)>,
    /// What came of each check.
    pub checks: Vec<Entry>,
    /// How long it all took.
    pub seconds: f64,
    /// What of it could not be removed again; empty where nothing is left.
    pub left: Vec<String>,
}

/// One check.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What is true where it passed.
    pub what: &'static str,
    /// What came of it.
    #[serde(flatten)]
    pub word: Word,
    /// How long it took.
    pub seconds: f64,
}

impl Entry {
    /// A check and its end.
    pub fn of(check: &'static Check, word: Word, seconds: f64) -> Entry {
        Entry { name: check.name, what: check.what, word, seconds }
    }

    /// One line.
    pub fn line(&self) -> String {
        let mark = match self.word.outcome {
            Outcome::Passed => "passed  ",
            Outcome::Failed => "FAILED  ",
            Outcome::CannotRun => "cannot  ",
        };
        format!("{mark} {:14} {:5.1} s  {}", self.name, self.seconds, self.what)
    }
}

impl Report {
    /// How many checks ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.checks.iter().filter(|entry| entry.word.outcome == outcome).count()
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let (passed, failed) = (self.count(Outcome::Passed), self.count(Outcome::Failed));
        let cannot = self.count(Outcome::CannotRun);
        let _ = writeln!(text, "{passed} passed, {failed} failed, {cannot} cannot run here; {:.0} s", self.seconds);
        for (name, fact) in &self.machine {
            let _ = writeln!(text, "{name:13} {fact}");
        }
        for left in &self.left {
            let _ = writeln!(text, "LEFT BEHIND   {left}");
        }
        text.push('\n');
        for entry in &self.checks {
            let _ = writeln!(text, "{}", entry.line());
            for line in entry.word.why.iter().chain(&entry.word.notes).flat_map(|text| text.lines()) {
                let _ = writeln!(text, "             {line}");
            }
        }
        text
    }

    /// Writes both.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let json = serde_json::to_string_pretty(self).map_err(|err| err.to_string())?;
        for (name, text) in [("report.json", json), ("report.txt", self.text())] {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|err| format!("write {}: {err}", path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::ALL;

    #[test]
    fn both_reports_say_why_a_check_did_not_pass() {
        let word =
            |outcome, why: Option<&str>| Word { outcome, why: why.map(str::to_owned), notes: vec!["12 ms".to_owned()] };
        let report = Report {
            machine: vec![("kernel", "6.1".to_owned())],
            checks: vec![
                Entry::of(&ALL[0], word(Outcome::Passed, None), 0.1),
                Entry::of(&ALL[1], word(Outcome::CannotRun, Some("no card")), 0.2),
                Entry::of(&ALL[2], word(Outcome::Failed, Some("wrong")), 0.3),
            ],
            seconds: 0.6,
            left: vec![],
        };
        let text = report.text();
        assert!(text.starts_with("1 passed, 1 failed, 1 cannot run here; 1 s\n"), "{text}");
        assert!(text.contains("no card") && text.contains("FAILED   kernels") && text.contains("12 ms"), "{text}");
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(json["checks"][1]["outcome"], "cannot-run");
        assert_eq!(json["checks"][2]["why"], "wrong");
    }
}
