//! A workload that counts in GPU memory.
fn main() {}
