//! The only process that loads libcuda.so.1.
fn main() {}
