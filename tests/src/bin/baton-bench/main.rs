//! `make bench`: figures of Baton, beside those of others where there are others, as a table of ratios and as
//! `bench.json` in the target folder.

#[path = "../attended/mod.rs"]
mod attended;
mod contenders;
mod figures;
mod idle;
mod memory;
mod phases;
mod restoring;
mod saving;
mod starting;

use std::process::ExitCode;

use baton_fault::Result;
use baton_nodes::{Node, NodeOptions};

use crate::figures::Figures;

/// The one node.
const NODE: &str = "bench";

fn main() -> ExitCode {
    attended::run(&[NODE], measure)
}

fn measure() -> Result<()> {
    let node = Node::start(NodeOptions::new(NODE).cards("h100"))?;
    let mut figures = Figures::default();
    let measured = all(&node, &mut figures);
    node.stop()?;
    // What was measured before something failed is worth to be seen too.
    figures.print();
    measured?;
    figures.write()
}

fn all(node: &Node, figures: &mut Figures) -> Result<()> {
    let contenders = contenders::on(node)?;
    starting::measure(node, &contenders, figures)?;
    phases::measure(node, &contenders, figures)?;
    idle::measure(node, &contenders, figures)?;
    saving::measure(node, &contenders, figures)?;
    restoring::measure(node, figures)
}
