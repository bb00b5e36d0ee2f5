//! `-d`: the sections that `-q` is to tell.

use super::fact::Fact;
use crate::outcome::{Failure, Outcome};

/// A section, by the elements that it has of a card.
pub type Section = &'static [&'static str];

/// Those of nvidia-smi(1) of which there is something to tell.
const SECTIONS: [(&str, Section); 11] = [
    ("MEMORY", &["fb_memory_usage", "bar1_memory_usage"]),
    ("UTILIZATION", &["utilization"]),
    ("ECC", &["ecc_mode", "ecc_errors"]),
    ("TEMPERATURE", &["temperature"]),
    ("POWER", &["gpu_power_readings"]),
    ("CLOCK", &["clocks", "max_clocks"]),
    ("COMPUTE", &["compute_mode"]),
    ("PIDS", &["processes"]),
    ("PERFORMANCE", &["performance_state", "clocks_event_reasons"]),
    ("ACCOUNTING", &["accounting_mode"]),
    ("ROW_REMAPPER", &["remapped_rows"]),
];

/// From the value of `-d`: names, with commas between them.
pub fn parse(names: &str) -> Outcome<Vec<Section>> {
    let section = |name: &str| {
        let found = SECTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
        found.map(|(_, section)| *section).ok_or_else(|| Failure::usage(format!("{name} is not a valid display type")))
    };
    names.split(',').map(section).collect()
}

/// Leaves the sections alone; all, if none is named.
pub fn keep(sections: &[Section], cards: &mut [(String, Vec<Fact>)]) {
    if sections.is_empty() {
        return;
    }
    let named = |fact: &Fact| match fact {
        Fact::Value { element, .. } | Fact::Group { element, .. } => {
            sections.iter().any(|section| section.contains(element))
        }
        Fact::Hexadecimal { .. } | Fact::Beneath(_) | Fact::Nothing => false,
    };
    cards.iter_mut().for_each(|(_, facts)| facts.retain(named));
}
