//! What must happen inside the mount namespace of a container.
fn main() {}
