//! Every node unpacks this program when it starts: without debug information, it is a tenth as large.

fn main() {
    println!("cargo:rustc-link-arg-bins=-s");
}
