//! A node with the letter under which the demo shows it.

use baton_fault::{Code, Fault, Result};
use baton_nodes::{Node, NodeOptions};
use serde_json::Value;

use crate::show::Show;

/// A node in the demo.
pub struct Host {
    /// A, B or C.
    pub letter: char,
    /// The node.
    pub node: Node,
}

impl Host {
    /// Starts a node with those cards and shows it.
    pub fn start(show: &Show, letter: char, options: NodeOptions) -> Result<Host> {
        let disk = options.disk.map_or_else(String::new, |bytes| format!(" --disk {bytes}"));
        let command = format!(
            "integration/node start {} --cards {}{disk}",
            options.name,
            options.cards.as_deref().unwrap_or("none")
        );
        show.timed("#", &command, || Node::start(options)).map(|node| Host { letter, node })
    }

    fn prompt(&self) -> String {
        format!("{}#", self.letter)
    }

    /// Runs and shows a command that must succeed.
    pub fn run(&self, show: &Show, command: &str) -> Result<String> {
        let words: Vec<&str> = command.split(' ').collect();
        show.timed(&self.prompt(), command, || self.node.ok(&words))
    }

    /// Runs and shows a command that must be refused; its last line of error.
    pub fn refused(&self, show: &Show, command: &str) -> Result<String> {
        let words: Vec<&str> = command.split(' ').collect();
        let done = show.timed(&self.prompt(), command, || self.node.run(&words))?;
        let line = done.stderr.lines().last().unwrap_or_default().to_owned();
        if done.status.success() {
            return Err(Fault::new(Code::State, format!("the demo's command {command:?}"), "it should have failed"));
        }
        Ok(line)
    }

    /// What a command prints that is not shown: the demo looks for itself.
    pub fn look(&self, command: &str) -> Result<String> {
        self.node.ok(&command.split(' ').collect::<Vec<_>>())
    }

    /// The cards as `baton devices --json` has them.
    pub fn cards(&self) -> Result<Vec<Value>> {
        let text = self.look("baton devices --json")?;
        let cards = parse(&text)?["cards"].as_array().cloned();
        cards.ok_or_else(|| Fault::new(Code::State, "read `baton devices --json`", "it names no cards"))
    }

    /// What is in containerd's store and in Baton's staging folder, sorted.
    pub fn stored(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for command in [
            "ctr image ls -q",
            "ctr content ls -q",
            "ctr content active",
            "ctr leases ls -q",
            "ls /var/lib/baton/staging",
        ] {
            let mut lines: Vec<String> = self.look(command)?.lines().map(name).collect();
            lines.sort();
            all.extend(lines);
        }
        Ok(all)
    }
}

/// The first column of a table: the others change with the time.
fn name(line: &str) -> String {
    line.split_whitespace().next().unwrap_or_default().to_owned()
}

/// JSON that a program printed.
pub fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|err| Fault::new(Code::State, "read JSON", format!("{err}: {text}")))
}
