//! nerdctl on a node, where this machine has one.

use std::io::Write;

use crate::client::Client;
use crate::machine::Machine;
use crate::programs::{Programs, on_path};

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

    /// State and exit status of a container (`running 0`).
    ///
    /// # Panics
    /// When there is no such container.
    pub fn state(&self, name: &str) -> String {
        self.known(name, "{{.State.Status}} {{.State.ExitCode}}")
    }
}

impl Client for Nerdctl {
    const PROGRAM: (&'static str, &'static [&'static str]) = ("nerdctl", &["--net", "none"]);

    fn node(&self) -> &Machine {
        &self.0
    }
}
