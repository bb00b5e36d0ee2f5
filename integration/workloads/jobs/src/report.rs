//! What a workload says of itself, and the judgement of it.
//!
//! On the socket, and between the processes of one workload, it is one line:
//!
//! ```text
//! WORKLOAD STEP MEMORY DAMAGED REFUSED PART…
//! PART: STEP:CHECKSUM:RIGHT:GPU
//! ```

use std::fmt;
use std::str::FromStr;

/// One count that is kept on one card by one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Steps that it has made.
    pub step: u64,
    /// The checksum that was found in device memory.
    pub checksum: u64,
    /// The one that it must be after so many steps.
    pub right: u64,
    /// The UUID of its card.
    pub gpu: String,
}

/// The whole workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The word it was started by.
    pub workload: String,
    /// Steps that all of it has made.
    pub step: u64,
    /// Bytes of device memory beside the counts.
    pub memory: u64,
    /// How often something was found that is not what was put there.
    pub damaged: u64,
    /// How often the card had no room, which is no failure.
    pub refused: u64,
    /// Its counts.
    pub parts: Vec<Part>,
}

impl Report {
    /// Why it is wrong, if it is.
    pub fn verdict(&self) -> Result<(), String> {
        if self.parts.is_empty() {
            return Err("nothing is counted".to_owned());
        }
        if let Some(part) = self.parts.iter().find(|part| part.checksum != part.right) {
            let Part { step, checksum, right, gpu } = part;
            return Err(format!("after step {step} the checksum on {gpu} is {checksum:016x}, not {right:016x}"));
        }
        if self.damaged != 0 {
            return Err(format!("{} pieces of memory are damaged", self.damaged));
        }
        Ok(())
    }

    /// As JSON, on one line; `checksum`, `expected` and `gpu` are those of the first part.
    pub fn json(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(Part::json).collect();
        let first = self.parts.first().map(Part::members).unwrap_or_default();
        format!(
            "{{\"workload\":\"{}\",\"step\":{}{first},\"memory\":{},\"damaged\":{},\"refused\":{},\"parts\":[{}]}}",
            self.workload,
            self.step,
            self.memory,
            self.damaged,
            self.refused,
            parts.join(",")
        )
    }
}

impl Part {
    fn members(&self) -> String {
        format!(
            ",\"checksum\":\"{:016x}\",\"expected\":\"{:016x}\",\"gpu\":\"{}\"",
            self.checksum, self.right, self.gpu
        )
    }

    fn json(&self) -> String {
        format!("{{\"step\":{}{}}}", self.step, self.members())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}:{:016x}:{}", self.step, self.checksum, self.right, self.gpu)
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let words: Vec<&str> = text.split(':').collect();
        let [step, checksum, right, gpu] = words.as_slice() else { return Err(format!("{text:?} is no part")) };
        let hex = |text: &str| u64::from_str_radix(text, 16).map_err(|_| format!("{text:?} is no checksum"));
        Ok(Part { step: number(step)?, checksum: hex(checksum)?, right: hex(right)?, gpu: (*gpu).to_owned() })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { workload, step, memory, damaged, refused, parts } = self;
        write!(f, "{workload} {step} {memory} {damaged} {refused}")?;
        parts.iter().try_for_each(|part| write!(f, " {part}"))
    }
}

impl FromStr for Report {
    type Err = String;

    fn from_str(line: &str) -> Result<Report, String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [workload, step, memory, damaged, refused, parts @ ..] = words.as_slice() else {
            return Err(format!("{line:?} is no report"));
        };
        Ok(Report {
            workload: (*workload).to_owned(),
            step: number(step)?,
            memory: number(memory)?,
            damaged: number(damaged)?,
            refused: number(refused)?,
            parts: parts.iter().map(|part| part.parse()).collect::<Result<_, _>>()?,
        })
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let part = Part { step: 7, checksum: 0xab, right: 0xab, gpu: "GPU-1".to_owned() };
        let parts = vec![part.clone(), Part { step: 8, ..part }];
        Report { workload: "cards".to_owned(), step: 7, memory: 10, damaged: 0, refused: 2, parts }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report = report();
        assert_eq!(report.to_string().parse(), Ok(report.clone()));
        assert!(
            report.json().contains("\"step\":7,\"checksum\":\"00000000000000ab\",\"expected\":\"00000000000000ab\"")
        );
        for wrong in ["", "cards 1 2 3", "cards x 0 0 0", "cards 1 0 0 0 1:2:3", "error no card"] {
            assert!(wrong.parse::<Report>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_wrong_count_or_damaged_piece_condemns_the_whole() {
        assert_eq!(report().verdict(), Ok(()));
        let mut wrong = report();
        wrong.parts[1].checksum += 1;
        assert!(wrong.verdict().is_err_and(|why| why.contains("after step 8") && why.contains("00000000000000ac")));
        assert!(Report { damaged: 1, ..report() }.verdict().is_err());
        assert!(Report { parts: vec![], ..report() }.verdict().is_err());
    }
}
