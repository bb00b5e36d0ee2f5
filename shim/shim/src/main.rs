//! The containerd shim.
fn main() {}
