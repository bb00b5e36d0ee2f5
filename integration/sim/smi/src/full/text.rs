//! The text that `-q` prints.

use super::Log;
use super::fact::Fact;

/// How far values stand from the margin, as of driver 580.
const COLUMN: usize = 54;

/// The whole.
pub fn of(log: &Log) -> String {
    let mut out = "\n==============NVSMI LOG==============\n\n".to_owned();
    lines(&log.driver, 0, &mut out);
    out.push('\n');
    lines(std::slice::from_ref(&log.attached), 0, &mut out);
    for (bus_id, facts) in &log.cards {
        out += &format!("GPU {bus_id}\n");
        lines(facts, 1, &mut out);
        out.push('\n');
    }
    out
}

fn line(title: &str, value: &str, depth: usize, out: &mut String) {
    let indent = depth * 4;
    *out += &format!("{:indent$}{title:<width$} : {value}\n", "", width = COLUMN - indent);
}

fn lines(facts: &[Fact], depth: usize, out: &mut String) {
    for fact in facts {
        match fact {
            Fact::Value { title, value, .. } => line(title, value, depth, out),
            Fact::Hexadecimal { title, digits, .. } => line(title, &format!("0x{digits}"), depth, out),
            Fact::Group { title: "", facts, .. } => lines(facts, depth, out),
            Fact::Group { title, facts, .. } if facts.is_empty() => line(title, "None", depth, out),
            Fact::Group { title, facts, .. } => {
                *out += &format!("{:indent$}{title}\n", "", indent = depth * 4);
                lines(facts, depth + 1, out);
            }
            Fact::Beneath(facts) => lines(facts, depth + 1, out),
            Fact::Nothing => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::full::fact::{group, hexadecimal, plain};

    #[test]
    fn values_stand_in_one_column_and_deeper_facts_further_in() {
        let facts = [
            hexadecimal("Bus", "pci_bus", "1B".to_owned()),
            group("", "mig_devices", [Fact::Nothing]),
            group("Processes", "processes", []),
            group("Slowed By", "reasons", [plain("HW", "hw", "No"), Fact::Beneath(vec![plain("Heat", "heat", "No")])]),
        ];
        let mut text = String::new();
        lines(&facts, 1, &mut text);
        let wanted = [
            ("    Bus", " : 0x1B"),
            ("    Processes", " : None"),
            ("    Slowed By", ""),
            ("        HW", " : No"),
            ("            Heat", " : No"),
        ];
        let line = |(name, value): &(&str, &str)| match *value {
            "" => format!("{name}\n"),
            value => format!("{name:<54}{value}\n"),
        };
        assert_eq!(text, wanted.iter().map(line).collect::<String>());
    }
}
