//! A test played in a process of its own, which does as it is told line by line: the process that is checkpointed.
//!
//! A part is a test that is ignored unless it is played: it calls [`cue`] to say something and wait for its turn.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::{Driver, Killed, Machine};
use crate::machine::api::Api;

/// Names the library in the environment of a part.
const LIBRARY: &str = "BATON_TEST_LIBCUDA";

/// What a line that is meant for the other side begins with.
const MARK: &str = "cue ";

/// The driver, in a part; `None` when nobody plays it.
pub fn library() -> Option<Api> {
    std::env::var(LIBRARY).ok().map(|library| Api::load(&library))
}

/// Says something and waits until the other side answers; its line comes back.
pub fn cue(what: impl std::fmt::Display) -> String {
    println!("\n{MARK}{what}");
    std::io::stdout().flush().expect("a reader");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).expect("a line");
    if line.is_empty() {
        std::process::exit(0);
    }
    line.trim_end().to_owned()
}

/// A process that plays a part.
pub struct Player {
    child: Killed,
    say: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Player {
    /// Starts the part of that name on a machine.
    pub fn start(machine: &Machine, part: &str) -> Player {
        Player::start_with(machine, part, &[])
    }

    /// With more in its environment.
    pub fn start_with(machine: &Machine, part: &str, environment: &[(&str, &str)]) -> Player {
        let mut run = Command::new(std::env::current_exe().expect("own path"));
        run.args(["--exact", part, "--ignored", "--nocapture", "--test-threads", "1"]);
        run.env(LIBRARY, machine.library()).envs(environment.iter().copied());
        let mut child: Child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let say = child.stdin.take().expect("piped");
        let hear = BufReader::new(child.stdout.take().expect("piped"));
        Player { child: Killed(child), say, hear }
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.child.0.id() as i32
    }

    /// What it says next.
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.hear.read_line(&mut line).expect("text"), 0, "the player has ended");
            if let Some(said) = line.trim_end().strip_prefix(MARK) {
                return said.to_owned();
            }
        }
    }

    /// Tells it to go on.
    pub fn say(&mut self, line: &str) {
        writeln!(self.say, "{line}").expect("the player reads");
    }

    /// Tells it to go on; what it says next comes back.
    pub fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }

    /// Waits until it ends: 0, or the signal that ended it.
    pub fn end(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.0.wait().expect("a child");
        status.signal().unwrap_or(status.code().unwrap_or(-1))
    }

    /// Locks and checkpoints it, restores and unlocks it.
    pub fn round(&self, driver: &Driver) -> [i32; 4] {
        let pid = self.pid();
        [driver.lock(pid, 20_000), driver.checkpoint(pid), driver.restore(pid, &[]), driver.unlock(pid)]
    }
}
