//! The job that counts, as a user runs and asks it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use serde::Deserialize;

use crate::count::checksum_after;
use crate::machine::Machine;
use crate::until::{DEADLINE, until};

/// The image that every node has.
pub const IMAGE: &str = baton_nodes::image::NAME;
/// Baton, as containerd names it.
pub const RUNTIME: &str = "io.containerd.baton.v2";

/// What the job says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Status {
    /// Steps so far.
    pub step: u64,
    /// The checksum after them, in hexadecimal.
    pub checksum: String,
    /// The card that it counts on.
    pub gpu: Option<String>,
    /// Bytes of additional memory.
    pub memory: u64,
    /// Pieces of the additional memory that are not as they were written.
    pub damaged: u64,
}

impl Status {
    /// Reads a status, whose checksum must be right and whose memory must be whole.
    ///
    /// # Panics
    /// When it is not so.
    pub fn checked(line: &str) -> Status {
        let status: Status = serde_json::from_str(line).unwrap_or_else(|err| panic!("{err} in {line:?}"));
        let wanted = format!("{:016x}", checksum_after(status.step));
        assert_eq!(status.checksum, wanted, "the checksum after {} steps", status.step);
        assert_eq!(status.damaged, 0, "pieces of its memory are damaged");
        status
    }
}

impl Machine {
    /// Starts a container in the background: options of `ctr run`, image, id, command.
    ///
    /// # Panics
    /// When it does not start.
    pub fn run_detached(&self, options: &[&str], image: &str, id: &str, command: &[&str]) {
        self.ok(&self.run_line(&[&["-d"], options, &[image, id], command].concat()));
    }

    /// Starts the job on the node's first card, and waits until it counts.
    pub fn run_job(&self, id: &str, arguments: &[&str]) -> Status {
        let mut command = Vec::new();
        if !arguments.is_empty() {
            command.push("/counter");
            command.extend(arguments);
        }
        self.run_detached(&["--env", "NVIDIA_VISIBLE_DEVICES=0"], IMAGE, id, &command);
        self.first_status(id)
    }

    /// Starts the job without a card, and waits until it counts.
    pub fn run_cpu_job(&self, id: &str) -> Status {
        self.run_detached(&[], IMAGE, id, &["/counter", "--cpu"]);
        self.first_status(id)
    }

    /// Its status as soon as it listens.
    pub fn first_status(&self, id: &str) -> Status {
        let end = Instant::now() + DEADLINE;
        loop {
            let done = self.in_container(id, &["/counter", "status"]);
            if done.status.success() && !done.stdout.is_empty() {
                return Status::checked(&done.stdout);
            }
            let state = || self.task_state(id);
            assert!(Instant::now() < end, "{id} never answers: {done:?}, and it is {}", state());
        }
    }

    /// Its status now; the checksum is compared with what it must be after so many steps.
    ///
    /// # Panics
    /// When it does not answer, or has not counted right.
    pub fn status(&self, id: &str) -> Status {
        self.ask(id, &["/counter", "status"])
    }

    /// Its status once it has done that many steps.
    ///
    /// # Panics
    /// When it does not get there in time, or has not counted right.
    pub fn wait_for_step(&self, id: &str, step: u64) -> Status {
        let status = self.ask(id, &["/counter", "wait", &step.to_string()]);
        assert!(status.step >= step, "it answered at step {}", status.step);
        status
    }

    /// On a busy machine `ctr`, under any runtime, now and then gives up a FIFO that it has not opened yet when a program
    /// ends at once, and what the program printed is lost: an empty answer is asked for again.
    fn ask(&self, id: &str, question: &[&str]) -> Status {
        until(&format!("{id} is heard"), || {
            let done = self.in_container(id, question);
            assert!(done.status.success(), "{}", self.tell(question, &done));
            (!done.stdout.is_empty()).then(|| Status::checked(&done.stdout))
        })
    }

    /// Runs a command in a running container, through containerd.
    pub fn in_container(&self, id: &str, command: &[&str]) -> baton_nodes::Output {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let exec = format!("e{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut line = vec!["ctr", "task", "exec", "--exec-id", &exec, id];
        line.extend(command);
        self.attempt(&line)
    }

    /// State and first process of a task, as containerd lists it; none when there is no such task.
    pub fn task(&self, id: &str) -> Option<(String, u32)> {
        self.ok(&["ctr", "task", "ls"]).lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [name, pid, state] if *name == id => Some(((*state).to_owned(), pid.parse().ok()?)),
                _ => None,
            }
        })
    }

    /// State of a task, `none` when there is no such task.
    pub fn task_state(&self, id: &str) -> String {
        self.task(id).map_or_else(|| "none".to_owned(), |(state, _)| state)
    }
}
