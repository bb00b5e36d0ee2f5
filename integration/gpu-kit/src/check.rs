//! A check, and what comes of it.

use serde::{Deserialize, Serialize};

use crate::checks;

/// One thing to find out.
#[derive(Debug)]
pub struct Check {
    /// Its name, for `--only` and the report.
    pub name: &'static str,
    /// What is true where it passes, as a sentence.
    pub what: &'static str,
    /// Seconds after which it is ended.
    pub limit_s: u64,
    /// Where it runs.
    pub place: Place,
    /// Finds it out, in a process of its own.
    pub run: fn(&mut Notes) -> Verdict,
}

/// Where a check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the machine as it is.
    Machine,
    /// Where the kit's containerd runs.
    Bed,
}

/// Numbers and words that were found on the way, for the report.
#[derive(Debug, Default)]
pub struct Notes(Vec<String>);

impl Notes {
    /// Notes something.
    pub fn note(&mut self, text: impl Into<String>) {
        self.0.push(text.into());
    }
}

/// Why a check did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It is not true.
    Failed(String),
    /// It cannot be found out on this machine.
    CannotRun(String),
}

/// Whether it is true.
pub type Verdict = Result<(), Stop>;

impl From<String> for Stop {
    fn from(why: String) -> Stop {
        Stop::Failed(why)
    }
}

impl From<baton_cuda::CudaError> for Stop {
    fn from(error: baton_cuda::CudaError) -> Stop {
        match error {
            baton_cuda::CudaError::Refused { .. } => Stop::Failed(error.to_string()),
            _ => Stop::CannotRun(error.to_string()),
        }
    }
}

/// Fails with a text where a condition does not hold.
pub fn demand(holds: bool, why: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Stop::Failed(why())) }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is true.
    Passed,
    /// It is not.
    Failed,
    /// It cannot be found out here.
    CannotRun,
}

/// What a check says on its standard output, as its last line, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// How it ended.
    pub outcome: Outcome,
    /// Why it did not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What was found on the way.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Word {
    /// The word for a verdict.
    pub fn of(verdict: Verdict, notes: Notes) -> Word {
        let (outcome, why) = match verdict {
            Ok(()) => (Outcome::Passed, None),
            Err(Stop::Failed(why)) => (Outcome::Failed, Some(why)),
            Err(Stop::CannotRun(why)) => (Outcome::CannotRun, Some(why)),
        };
        Word { outcome, why, notes: notes.0 }
    }
}

/// `check NAME`: runs it in this process and says what came of it.
pub fn run_here(name: &str) -> Result<(), String> {
    let check = checks::find(name)?;
    let mut notes = Notes::default();
    let word = Word::of((check.run)(&mut notes), notes);
    println!("{}", serde_json::to_string(&word).map_err(|err| err.to_string())?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_the_verdict_and_is_read_as_it_was_written() {
        let word = Word::of(Err(Stop::CannotRun("no card".to_owned())), Notes(vec!["a".to_owned()]));
        let text = serde_json::to_string(&word).expect("JSON");
        assert_eq!(text, r#"{"outcome":"cannot-run","why":"no card","notes":["a"]}"#);
        assert_eq!(serde_json::from_str::<Word>(&text).expect("a word"), word);
    }

    #[test]
    fn a_driver_without_a_function_is_no_failure_of_baton() {
        let missing = Stop::from(baton_cuda::CudaError::Missing("cuCheckpointProcessLock"));
        assert!(matches!(missing, Stop::CannotRun(why) if why.contains("cuCheckpointProcessLock")));
    }
}
