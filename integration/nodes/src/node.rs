//! A node as tests hold it.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use baton_fault::{Attempt, Code, Fault, Result};

use crate::cell::Cell;
use crate::start::NodeOptions;

/// A running node; it is stopped when this is dropped.
#[derive(Debug)]
pub struct Node {
    name: String,
    program: PathBuf,
    pid: i32,
}

/// What a command in a node left behind.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed, as UTF-8.
    pub stdout: String,
    /// What it printed to standard error, as UTF-8.
    pub stderr: String,
}

impl Node {
    /// Starts a node and waits until its containerd answers. One of the same name that an earlier run left
    /// behind is stopped first.
    ///
    /// # Errors
    /// What `baton-node start` says; `FILE` when that program is not built.
    pub fn start(options: NodeOptions) -> Result<Node> {
        let program = program()?;
        let name = options.name.clone();
        if Cell::run_dir(&name).exists() {
            checked(Command::new(&program).args(["stop", &name]))?;
        }
        let mut command = Command::new(&program);
        command.args(["start", &name]);
        if let Some(cards) = &options.cards {
            command.args(["--cards", cards]);
        }
        if let Some(dir) = &options.containerd {
            command.arg("--containerd").arg(dir);
        }
        if let Some(bytes) = options.disk {
            command.args(["--disk", &bytes.to_string()]);
        }
        if let Some(dir) = &options.bin {
            command.arg("--bin").arg(dir);
        }
        if options.cgroup2 {
            command.arg("--cgroup2");
        }
        for name in &options.programs {
            command.args(["--programs", name]);
        }
        checked(&mut command)?;
        let pid = Cell::running(&name)?.pid;
        Ok(Node { name, program, pid })
    }

    /// A node that runs already.
    ///
    /// # Errors
    /// `NOT_FOUND` or `STATE` when it does not.
    pub fn running(name: &str) -> Result<Node> {
        Ok(Node { name: name.to_owned(), program: program()?, pid: Cell::running(name)?.pid })
    }

    /// Lets it run on.
    pub fn leave(self) {
        std::mem::forget(self);
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pid of its first process on the machine.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// A command to be run in the node; how its input and output go is the caller's business. When the returned
    /// command's process is killed, the program in the node is killed too.
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, command: impl IntoIterator<Item = S>) -> Command {
        let mut own = Command::new(&self.program);
        own.args(["exec", &self.name]).args(command);
        own
    }

    /// Runs a command in the node to its end.
    ///
    /// # Errors
    /// Only when it could not be run at all; how it ended is in the output.
    pub fn run(&self, command: &[&str]) -> Result<Output> {
        output(&mut self.command(command))
    }

    /// Runs a command in the node, which must succeed, and returns what it printed.
    ///
    /// # Errors
    /// `SYSTEM` with the command's standard error when it fails.
    pub fn ok(&self, command: &[&str]) -> Result<String> {
        let done = self.run(command)?;
        if done.status.success() {
            return Ok(done.stdout);
        }
        let what = format!("run {} on node {}", command.join(" "), self.name);
        Err(Fault::new(Code::System, what, format!("{}: {}{}", done.status, done.stderr, done.stdout)))
    }

    /// Where a path of the node lies as seen from outside. A symbolic link on the way is followed outside.
    pub fn root_path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.pid)).join(path.trim_start_matches('/'))
    }

    /// Stops it and reports how that went; dropping it does the same without a word.
    pub fn stop(self) -> Result<()> {
        let done = checked(Command::new(&self.program).args(["stop", &self.name]));
        std::mem::forget(self);
        done
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Err(fault) = checked(Command::new(&self.program).args(["stop", &self.name])) {
            eprintln!("{fault}");
        }
    }
}

/// `baton-node`, from where the calling program was built: tests lie in `deps/` beside it.
fn program() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("BATON_BIN") {
        return Ok(PathBuf::from(dir).join("baton-node"));
    }
    let own = std::env::current_exe().attempt(|| "find the own program")?;
    own.ancestors().skip(1).take(2).map(|dir| dir.join("baton-node")).find(|path| path.exists()).ok_or_else(|| {
        Fault::new(Code::File, "find baton-node", format!("it is not beside {}", own.display()))
            .advise("run make build")
    })
}

fn output(command: &mut Command) -> Result<Output> {
    let done = command.output().attempt(|| format!("run {}", command.get_program().to_string_lossy()))?;
    Ok(Output {
        status: done.status,
        stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    })
}

/// Runs `baton-node` with a verb of its own; its fault crosses over.
fn checked(command: &mut Command) -> Result<()> {
    let done = output(command)?;
    if done.status.success() {
        return Ok(());
    }
    let line = done.stderr.lines().last().unwrap_or_default();
    Err(Fault::parse(line).unwrap_or_else(|| Fault::new(Code::System, "run baton-node", line)))
}
