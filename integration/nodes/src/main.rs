//! Test nodes in namespaces.
fn main() {}
