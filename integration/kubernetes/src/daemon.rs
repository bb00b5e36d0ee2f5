//! A program that runs in a node until the node stops, or the program is stopped.

use baton_fault::Result;
use baton_nodes::Node;

/// What is started, and stopped, by its name. Its log is /var/log/NAME.log of the node.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The program, on the node's PATH.
    pub name: &'static str,
    /// The command that becomes the program; nothing where the program is started as it is.
    pub by: Vec<String>,
    /// Its command line.
    pub arguments: Vec<String>,
}

impl Daemon {
    /// With arguments of its own.
    pub fn new(name: &'static str, arguments: impl IntoIterator<Item = impl Into<String>>) -> Daemon {
        Daemon::under([], name, arguments)
    }

    /// The same by a command that takes the program and its arguments and becomes it.
    pub fn under<const N: usize>(
        by: [&str; N],
        name: &'static str,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Daemon {
        let by = by.map(str::to_owned).to_vec();
        Daemon { name, by, arguments: arguments.into_iter().map(Into::into).collect() }
    }

    /// Starts it; whether it comes up is seen by asking it.
    ///
    /// # Errors
    /// When the node does not run.
    pub fn start(&self, node: &Node) -> Result<()> {
        let name = self.name;
        let script = format!("setsid \"$@\" >>/var/log/{name}.log 2>&1 </dev/null & echo $! >/run/{name}.pid");
        let mut line = vec!["sh", "-c", &script, "sh"];
        line.extend(self.by.iter().map(String::as_str));
        line.push(name);
        line.extend(self.arguments.iter().map(String::as_str));
        node.ok(&line).map(|_| ())
    }

    /// Sends it a signal (`TERM`, `KILL`, `STOP`).
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal(&self, node: &Node, signal: &str) -> Result<()> {
        node.ok(&["sh", "-c", &format!("kill -{signal} $(cat /run/{}.pid)", self.name)]).map(|_| ())
    }
}
