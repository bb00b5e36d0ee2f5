//! NVIDIA's own Python bindings run on the driver and are checkpointed. Needs root, to make device nodes, and, in
//! `BATON_TEST_PYTHONPATH`, where the packages `cuda-bindings` and `cuda-pathfinder` are.

mod machine;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use machine::{Killed, Machine};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/bindings.py");
const KERNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/kernels/baton.ptx");

#[test]
#[ignore = "needs a Python with NVIDIA's packages, which BATON_TEST_PYTHONPATH names"]
fn a_python_program_is_checkpointed_by_another_process_and_by_itself() {
    let packages = std::env::var_os("BATON_TEST_PYTHONPATH").expect("BATON_TEST_PYTHONPATH");
    let machine = Machine::with("h100");
    let mut run = Command::new("python3");
    run.args([SCRIPT, KERNELS]).env("PYTHONPATH", packages);
    run.env("LD_LIBRARY_PATH", machine.root().join("usr/lib/x86_64-linux-gnu"));
    let mut program = Killed(run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3"));
    let mut out = BufReader::new(program.0.stdout.take().expect("piped"));
    let mut next = || {
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        line
    };
    assert_eq!(next(), "added on NVIDIA H100 80GB HBM3\n");
    let (driver, pid) = (machine.driver(), program.0.id() as i32);
    assert_eq!([driver.lock(pid, 10_000), driver.checkpoint(pid)], [0, 0]);
    assert_eq!(machine.books()[0].bytes, 0);
    assert_eq!([driver.restore(pid, &[]), driver.unlock(pid)], [0, 0]);
    writeln!(program.0.stdin.take().expect("piped"), "go on").expect("it reads");
    assert_eq!(next(), "done\n");
    assert!(program.0.wait().expect("it ends").success());
}
