//! A node in a test: what goes wrong on it is told with all that its programs and its containerd printed.

use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Stdio};

use baton_fault::Code;
use baton_nodes::{Node, NodeOptions, Output};

use crate::job::RUNTIME;
use crate::said;

/// Longest run of one command on a node, in seconds: one that hangs ends the test, not the run of all tests.
const COMMAND_MAX: &str = "90";
/// How much of a node's log is shown when a test fails on it, in lines.
const LOG_LINES: usize = 60;
/// Where a node's driver lies.
pub const DRIVER_ROOT: &str = "/run/nvidia/driver";
/// Names the containerd that nodes get in place of their own, by version or folder: `make test-matrix` sets it.
const CONTAINERD: &str = "BATON_TEST_CONTAINERD";
/// Where Baton's programs lie on a node.
pub const BIN: &str = "/run/baton-node/bin";

/// A running node; stopped when dropped.
#[derive(Debug)]
pub struct Machine {
    node: Node,
    /// The words by which `ctr run` is told the runtime, and the engine where it is not Baton's.
    runtime: Vec<String>,
}

impl Deref for Machine {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl Machine {
    /// A node of that name with those cards (`h100x2`, `none`).
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(name: &str, cards: &str) -> Machine {
        Machine::with(NodeOptions::new(name).cards(cards))
    }

    /// A node of another making. Its name gets the number of this process, so that two runs of the tests on one
    /// machine do not meet.
    ///
    /// # Panics
    /// When it does not start.
    pub fn with(mut options: NodeOptions) -> Machine {
        options.name = format!("{}-{}", options.name, std::process::id());
        options.containerd = options.containerd.or_else(|| std::env::var_os(CONTAINERD).map(Into::into));
        let node = Node::start(options).unwrap_or_else(|fault| panic!("{fault}"));
        Machine { node, runtime: ["--runtime", RUNTIME].map(str::to_owned).to_vec() }
    }

    /// Has its containers run by another runtime, or engine, named by these options of `ctr run`.
    #[must_use]
    pub fn under(mut self, runtime: &[&str]) -> Machine {
        self.runtime = runtime.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// A line that starts a container: `ctr run` with its runtime, then options, image, id and command.
    pub fn run_line<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        let runtime = self.runtime.iter().map(String::as_str);
        ["ctr", "run"].into_iter().chain(runtime).chain(words.iter().copied()).collect()
    }

    /// A node whose cards are plugged in elsewhere than those of another node.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_unlike(other: &Machine, name: &str, cards: &str) -> Machine {
        let taken: Vec<String> = other.cards().into_iter().map(|card| card.pci_bus_id).collect();
        // Where the cards of a node are follows from its name.
        (0..10)
            .map(|number| Machine::start(&format!("{name}{number}"), cards))
            .find(|node| node.cards().iter().all(|card| !taken.contains(&card.pci_bus_id)))
            .expect("a node with other addresses")
    }

    /// The version of its containerd: major and minor number.
    ///
    /// # Panics
    /// When it does not say.
    pub fn containerd(&self) -> (u32, u32) {
        let said = self.ok(&["containerd", "--version"]);
        let word = said.split_whitespace().nth(2).unwrap_or_default().trim_start_matches('v');
        let mut numbers = word.split('.').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
            _ => panic!("cannot read a version in {said:?}"),
        }
    }

    /// The name of an image in the registry that all nodes share, which no other test uses.
    pub fn reference(&self, tag: &str) -> String {
        format!("registry.test:5000/{}/job:{tag}", self.name())
    }

    /// Runs a command to its end.
    ///
    /// # Panics
    /// When it cannot be run at all.
    pub fn attempt(&self, command: &[&str]) -> Output {
        self.node.run(&bounded(command)).unwrap_or_else(|fault| panic!("{fault}"))
    }

    /// Runs a command that must succeed; what it printed.
    ///
    /// # Panics
    /// With all it printed, when it fails.
    pub fn ok(&self, command: &[&str]) -> String {
        let done = self.attempt(command);
        assert!(done.status.success(), "{}", self.tell(command, &done));
        done.stdout
    }

    /// Runs a command that must fail, with one line of this code; the line.
    ///
    /// # Panics
    /// When it succeeds, or says anything else.
    pub fn refused(&self, command: &[&str], code: Code) -> String {
        let done = self.attempt(command);
        said::refusal(&done, code).unwrap_or_else(|why| panic!("{why}: {}", self.tell(command, &done)))
    }

    /// Begins a command whose output is collected at its end.
    ///
    /// # Panics
    /// When it cannot be run.
    pub fn begin(&self, command: &[&str]) -> Child {
        self.node
            .command(bounded(command))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("run a command on a node")
    }

    /// Waits for the end of a command that was begun.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn end(&self, child: Child) -> Output {
        let done = child.wait_with_output().expect("wait for a command on a node");
        Output {
            status: done.status,
            stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
        }
    }

    /// Has the simulated hardware do something wrong, or slowly.
    ///
    /// # Panics
    /// When it does not take the order.
    pub fn order_hardware(&self, order: &str) {
        self.ok(&[&format!("{BIN}/baton-sim-card"), "order", "--root", DRIVER_ROOT, order]);
    }

    /// Takes every free block of /var/lib, with files whose names begin with `filling`.
    ///
    /// # Panics
    /// When some are left.
    pub fn fill_var_lib(&self) {
        let script = "\
            left=$(df --output=avail -B1 /var/lib | tail -1); \
            fallocate -l $((left - 4194304)) /var/lib/filling; \
            dd if=/dev/zero of=/var/lib/filling.rest bs=64k 2>/dev/null; \
            dd if=/dev/zero of=/var/lib/filling.last bs=512 2>/dev/null; \
            df --output=avail -B1 /var/lib | tail -1";
        let left = self.ok(&["sh", "-c", script]);
        assert!(left.trim().parse::<u64>().expect("a number") < 65536, "{left} bytes are left");
    }

    /// What the command printed, for the message of a test that fails.
    pub fn tell(&self, command: &[&str], done: &Output) -> String {
        format!("on {}: {}\n{}\n{}{}", self.name(), command.join(" "), done.status, done.stdout, done.stderr)
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.root_path("/var/log/containerd.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// Writes a file on the node, through its root.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let there = self.root_path(path);
        let folder = there.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&there, bytes)).expect("write a file on a node");
    }
}

fn bounded<'a>(command: &[&'a str]) -> Vec<&'a str> {
    ["timeout", "--foreground", "-k", "5", COMMAND_MAX].into_iter().chain(command.iter().copied()).collect()
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of node {}:\n{}\n---", self.name(), self.log_tail());
        }
    }
}
