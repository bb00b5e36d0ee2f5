//! The simulated cards of one node.
fn main() {}
