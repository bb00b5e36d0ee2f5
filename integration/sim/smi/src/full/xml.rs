//! The XML that `-q -x` prints.

use super::Log;
use super::fact::Fact;

/// What driver 580 begins with.
const HEAD: &str = "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n";

/// The whole.
pub fn of(log: &Log) -> String {
    let mut out = format!("{HEAD}<nvidia_smi_log>\n");
    elements(&log.driver, 1, &mut out);
    elements(std::slice::from_ref(&log.attached), 1, &mut out);
    for (bus_id, facts) in &log.cards {
        out += &format!("\t<gpu id=\"{bus_id}\">\n");
        elements(facts, 2, &mut out);
        out += "\t</gpu>\n";
    }
    out + "</nvidia_smi_log>\n"
}

fn elements(facts: &[Fact], depth: usize, out: &mut String) {
    let indent = "\t".repeat(depth);
    for fact in facts {
        match fact {
            Fact::Value { element, value: text, .. } | Fact::Hexadecimal { element, digits: text, .. } => {
                *out += &format!("{indent}<{element}>{}</{element}>\n", escaped(text));
            }
            Fact::Group { element, facts, .. } => {
                *out += &format!("{indent}<{element}>\n");
                elements(facts, depth + 1, out);
                *out += &format!("{indent}</{element}>\n");
            }
            Fact::Beneath(facts) => elements(facts, depth, out),
            Fact::Nothing => *out += &format!("{indent}None\n"),
        }
    }
}

/// A process may be called anything.
fn escaped(text: &str) -> String {
    let character = |character: char| match character {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        // XML 1.0 has no place for others, however written.
        control if control.is_control() => '\u{fffd}'.to_string(),
        other => other.to_string(),
    };
    text.chars().map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::full::fact::{group, hexadecimal, plain};

    #[test]
    fn groups_are_elements_and_what_lies_beneath_stands_beside() {
        let facts = [
            hexadecimal("Bus", "pci_bus", "1B".to_owned()),
            group("", "mig_devices", [Fact::Nothing]),
            group("Processes", "processes", []),
            group("Slowed By", "reasons", [plain("HW", "hw", "No"), Fact::Beneath(vec![plain("Heat", "heat", "No")])]),
        ];
        let mut xml = String::new();
        elements(&facts, 1, &mut xml);
        let wanted = "\t<pci_bus>1B</pci_bus>\n\t<mig_devices>\n\t\tNone\n\t</mig_devices>\n\t<processes>\n\t</processes>\n\
                      \t<reasons>\n\t\t<hw>No</hw>\n\t\t<heat>No</heat>\n\t</reasons>\n";
        assert_eq!(xml, wanted);
    }

    #[test]
    fn a_name_cannot_end_its_element() {
        assert_eq!(escaped("a</pid>&\u{7}"), "a&lt;/pid&gt;&amp;\u{fffd}");
    }
}
