//! A running workload that can be asked, wherever it runs.

use serde::Deserialize;

/// What it says of itself.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    /// Steps that all of it has made.
    pub step: u64,
    /// Bytes of device memory beside the counts.
    pub memory: u64,
    /// How often the card had no room.
    pub refused: u64,
    /// Its counts.
    pub parts: Vec<Part>,
}

impl Status {
    /// The card of its first count.
    pub fn gpu(&self) -> &str {
        self.parts.first().map_or("none", |part| &part.gpu)
    }
}

/// One count.
#[derive(Debug, Clone, Deserialize)]
pub struct Part {
    /// Its checksum.
    pub checksum: String,
    /// Its card.
    pub gpu: String,
}

/// Who can be asked.
pub trait Asked {
    /// Steps that show that it goes on.
    const STEPS_ON: u64;

    /// The answer to a question of the workload's own command line.
    fn ask(&self, question: &[&str]) -> Result<Status, String>;

    /// Its verified status; an error where it finds itself wrong.
    fn status(&self) -> Result<Status, String> {
        self.ask(&["status"])
    }

    /// Its status once it has made so many steps.
    fn wait(&self, step: u64) -> Result<Status, String> {
        self.ask(&["wait", &step.to_string()])
    }

    /// It computes on, and right.
    fn goes_on(&self) -> Result<Status, String> {
        let now = self.status()?;
        self.wait(now.step + Self::STEPS_ON)?;
        self.status()
    }
}
