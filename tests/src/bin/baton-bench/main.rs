//! `make bench`: figures of Baton, beside those of others where there are others, as a table of ratios and as
//! `bench.json` in the target folder. Words on the command line choose parts: `make bench BENCH="idle saving"`.

#[path = "../attended/mod.rs"]
mod attended;
mod contenders;
mod figures;
mod idle;
mod memory;
mod phases;
mod pods;
mod restoring;
mod saving;
mod starting;

use std::process::ExitCode;

use baton_fault::{Code, Fault, Result};
use baton_nodes::{Node, NodeOptions};

use crate::contenders::Contender;
use crate::figures::Figures;

/// The one node.
const NODE: &str = "bench";

fn main() -> ExitCode {
    attended::run(&[NODE, pods::NODE], measure)
}

fn measure() -> Result<()> {
    let parts = chosen()?;
    let node = Node::start(NodeOptions::new(NODE).cards("h100"))?;
    let mut figures = Figures::default();
    let measured = contenders::on(&node)
        .and_then(|contenders| parts.iter().try_for_each(|(_, measure)| measure(&node, &contenders, &mut figures)));
    node.stop()?;
    // What was measured before something failed is worth to be seen too.
    figures.print();
    measured?;
    figures.write()
}

/// A part of the whole: what it is called on the command line, and how it is measured.
type Part = (&'static str, fn(&Node, &[Contender], &mut Figures) -> Result<()>);

/// In the order in which they are measured.
const PARTS: [Part; 6] = [
    ("starting", starting::measure),
    ("phases", phases::measure),
    ("idle", idle::measure),
    ("saving", saving::measure),
    ("restoring", restoring::measure),
    ("pods", pods::measure),
];

/// The parts that the command line names, after the word of `attended`; all where it names none.
///
/// # Errors
///
/// `USAGE` for a word that names none.
fn chosen() -> Result<Vec<Part>> {
    let words: Vec<String> = std::env::args().skip(2).collect();
    if let Some(word) = words.iter().find(|word| PARTS.iter().all(|(name, _)| name != word)) {
        let names = PARTS.map(|(name, _)| name).join(", ");
        return Err(Fault::new(Code::Usage, "choose what is measured", format!("{word} is none of {names}")));
    }
    Ok(PARTS.into_iter().filter(|(name, _)| words.is_empty() || words.iter().any(|word| word == name)).collect())
}
