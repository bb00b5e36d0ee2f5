//! `make bench`.
fn main() {}
