//! Clients with Docker's command line, and the job as they run it.

use baton_nodes::Output;

use crate::job::{IMAGE, Status};
use crate::machine::Machine;
use crate::until::until;

/// A node with a client that has Docker's command line.
pub trait Client {
    /// The client's name, and options of its `run` that a node needs.
    const PROGRAM: (&'static str, &'static [&'static str]);

    /// The node.
    fn node(&self) -> &Machine;

    /// Runs the client to its end.
    fn attempt(&self, words: &[&str]) -> Output {
        self.node().attempt(&[&[Self::PROGRAM.0], words].concat())
    }

    /// Runs the client, which must succeed; what it printed, without the end of the line.
    ///
    /// # Panics
    /// With all it printed, when it fails.
    fn ok(&self, words: &[&str]) -> String {
        self.node().ok(&[&[Self::PROGRAM.0], words].concat()).trim_end().to_owned()
    }

    /// Starts the job without a card, and waits until it counts.
    ///
    /// # Panics
    /// When it does not.
    fn run_job(&self, runtime: &str, options: &[&str], name: &str) -> Status {
        let head = ["run", "-d", "--runtime", runtime, "--name", name];
        self.ok(&[&head[..], Self::PROGRAM.1, options, &[IMAGE, "--cpu"]].concat());
        self.first_status(name)
    }

    /// The job's status as soon as it answers.
    ///
    /// # Panics
    /// When it does not.
    fn first_status(&self, name: &str) -> Status {
        until(&format!("{name} answers"), || {
            let done = self.attempt(&["exec", name, "/counter", "status"]);
            done.status.success().then(|| Status::checked(&done.stdout))
        })
    }

    /// The job's status.
    ///
    /// # Panics
    /// When it does not answer.
    fn status(&self, name: &str) -> Status {
        Status::checked(&self.ok(&["exec", name, "/counter", "status"]))
    }

    /// The job's status once it has done that many steps; its checksum is right.
    ///
    /// # Panics
    /// When it does not get there.
    fn wait_for_step(&self, name: &str, step: u64) -> Status {
        let status = Status::checked(&self.ok(&["exec", name, "/counter", "wait", &step.to_string()]));
        assert!(status.step >= step, "it answered at step {}", status.step);
        status
    }

    /// A part of what the client knows of a container, by a template.
    ///
    /// # Panics
    /// When there is no such container.
    fn known(&self, name: &str, template: &str) -> String {
        self.ok(&["inspect", "-f", template, name])
    }
}
