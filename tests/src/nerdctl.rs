//! nerdctl on a node, where this machine has one.

use std::io::Write;

use baton_nodes::Output;

use crate::job::{IMAGE, Status};
use crate::machine::Machine;
use crate::programs::{Programs, on_path};
use crate::until::until;

/// A node with nerdctl.
#[derive(Debug)]
pub struct Nerdctl(Machine);

impl Nerdctl {
    /// Starts a node with the nerdctl that is on this machine's PATH; none, and says so, where there is none.
    ///
    /// # Panics
    /// When the node does not start.
    pub fn start(name: &str) -> Option<Nerdctl> {
        let Some(program) = on_path("nerdctl") else {
            // Past the capture of the test's own output: whoever reads the run of all tests is to know.
            let _ = writeln!(std::io::stderr(), "SKIPPED {name}: there is no nerdctl on this machine's PATH");
            return None;
        };
        Some(Nerdctl(Programs::new().with(&program, "nerdctl").start(name, "none")))
    }

    /// The node.
    pub fn node(&self) -> &Machine {
        &self.0
    }

    /// Runs `nerdctl` to its end.
    pub fn attempt(&self, words: &[&str]) -> Output {
        self.0.attempt(&[&["nerdctl"], words].concat())
    }

    /// Runs `nerdctl`, which must succeed; what it printed, without the end of the line.
    ///
    /// # Panics
    /// With all it printed, when it fails.
    pub fn ok(&self, words: &[&str]) -> String {
        self.0.ok(&[&["nerdctl"], words].concat()).trim_end().to_owned()
    }

    /// Starts the job without a card, and waits until it counts.
    ///
    /// # Panics
    /// When it does not.
    pub fn run_job(&self, runtime: &str, options: &[&str], name: &str) -> Status {
        let head = ["run", "-d", "--net", "none", "--runtime", runtime, "--name", name];
        self.ok(&[&head[..], options, &[IMAGE, "--cpu"]].concat());
        self.first_status(name)
    }

    /// The job's status as soon as it answers.
    ///
    /// # Panics
    /// When it does not.
    pub fn first_status(&self, name: &str) -> Status {
        until(&format!("{name} answers"), || {
            let done = self.attempt(&["exec", name, "/counter", "status"]);
            done.status.success().then(|| Status::checked(&done.stdout))
        })
    }

    /// The job's status once it has done that many steps; its checksum is right.
    ///
    /// # Panics
    /// When it does not get there.
    pub fn wait_for_step(&self, name: &str, step: u64) -> Status {
        let status = Status::checked(&self.ok(&["exec", name, "/counter", "wait", &step.to_string()]));
        assert!(status.step >= step, "it answered at step {}", status.step);
        status
    }

    /// State and exit status of a container (`running 0`).
    ///
    /// # Panics
    /// When there is no such container.
    pub fn state(&self, name: &str) -> String {
        self.ok(&["inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", name])
    }
}
