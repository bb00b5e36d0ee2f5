//! `make bench`: figures of Baton, beside those of others where there are others, as a table of ratios and as
//! `bench.json` in the target folder.

#[path = "../attended/mod.rs"]
mod attended;
mod figures;
mod memory;
mod restoring;
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
    starting::measure(&node, &mut figures)?;
    restoring::measure(&node, &mut figures)?;
    node.stop()?;
    figures.print();
    figures.write()
}
