//! A container of the suite.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::asked::{Asked, Status};
use crate::check::Notes;
use crate::{bed, child};

/// The image in the kit.
const IMAGE: &str = "localhost/baton/counter:1";
/// The image with Python.
pub const PYTHON: &str = "localhost/baton/python:1";
/// The job in it.
pub const PYTHON_JOB: &[&str] = &["python3", "/count.py"];
/// Baton, as containerd names it.
const RUNTIME: &str = "io.containerd.baton.v2";
/// Longest wait for a workload to answer.
const BEGIN_DEADLINE: Duration = Duration::from_secs(45);

/// Runs a command to its end, which must be a good one; what it printed.
pub fn ok(words: &[&str]) -> Result<String, String> {
    let done = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let done = done.map_err(|err| format!("start {}: {err}", words[0]))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout);
    Err(format!("{}: {}: {}", words.join(" "), done.status, said.trim()))
}

/// What runs in a container: the image, and the program in it that counts and is asked.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    image: &'static str,
    program: &'static [&'static str],
}

/// The workloads.
pub const WORKLOAD: Job = Job { image: IMAGE, program: &["/workload"] };
/// The counter in Python.
pub const COUNT_PY: Job = Job { image: PYTHON, program: PYTHON_JOB };

/// A container; ended and removed with its images when dropped.
#[derive(Debug)]
pub struct Container {
    id: String,
    program: &'static [&'static str],
}

impl Container {
    /// Starts a workload with these arguments and these cards.
    pub fn start(id: &str, cards: &str, arguments: &[&str]) -> Result<Container, String> {
        Container::start_job(WORKLOAD, id, cards, arguments)
    }

    /// Starts a job with these arguments and these cards.
    pub fn start_job(job: Job, id: &str, cards: &str, arguments: &[&str]) -> Result<Container, String> {
        let cards = format!("NVIDIA_VISIBLE_DEVICES={cards}");
        Container::run(job, id, &[&["--env", &cards, job.image, id], job.program, arguments].concat())
    }

    /// Starts a job from a saved image, which says all there is to say.
    pub fn restore(job: Job, image: &str, notes: &mut Notes) -> Result<Container, String> {
        let (id, begun) = (image.rsplit(['/', ':']).nth(1).unwrap_or("restored"), Instant::now());
        let container = Container::run(job, &format!("{id}-back"), &[image, &format!("{id}-back")])?;
        notes.note(format!("restore: {} ms", begun.elapsed().as_millis()));
        Ok(container)
    }

    fn run(job: Job, id: &str, words: &[&str]) -> Result<Container, String> {
        let container = Container { id: id.to_owned(), program: job.program };
        let log = format!("file://{}", container.log().display());
        ok(&[&["ctr", "run", "-d", "--runtime", RUNTIME, "--log-uri", &log], words].concat())
            .map_err(|why| format!("{why}\ncontainerd said: {}", bed::errors()))?;
        Ok(container)
    }

    /// Where what it prints goes.
    fn log(&self) -> PathBuf {
        Path::new("/var/log").join(format!("{}.log", self.id))
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Runs a command in it that prints something; what it prints.
    pub fn said(&self, command: &[&str]) -> Result<String, String> {
        let end = Instant::now() + BEGIN_DEADLINE;
        loop {
            match self.exec(command) {
                // `ctr` loses now and then what a program has printed that ends at once.
                Ok(said) if said.is_empty() && Instant::now() < end => {}
                Ok(said) if said.is_empty() => return Err(format!("{} prints nothing", command.join(" "))),
                // A save has paused it for a moment.
                Err(why) if (why.contains("`Paused`") || why.ends_with(": ")) && Instant::now() < end => {}
                Err(why) => {
                    let printed = std::fs::read_to_string(self.log()).unwrap_or_default();
                    return Err(format!("{why}\nit printed: {}", child::tail(&printed)));
                }
                done => return done,
            }
        }
    }

    fn exec(&self, command: &[&str]) -> Result<String, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let exec = format!("e{}", NEXT.fetch_add(1, Ordering::Relaxed));
        ok(&[&["ctr", "task", "exec", "--exec-id", &exec, &self.id], command].concat())
    }

    /// Saves it to an image of its name.
    pub fn save(&self, notes: &mut Notes, options: &[&str]) -> Result<String, String> {
        let (image, begun) = (format!("localhost/kit/{}:1", self.id), Instant::now());
        ok(&[&["baton", "save", &self.id, &image], options].concat())
            .map_err(|why| format!("{why}\ncontainerd said: {}", bed::errors()))?;
        notes.note(format!("save: {} ms", begun.elapsed().as_millis()));
        Ok(image)
    }
}

impl Asked for Container {
    const STEPS_ON: u64 = 10;

    fn ask(&self, question: &[&str]) -> Result<Status, String> {
        let line = [self.program, question].concat();
        let end = Instant::now() + BEGIN_DEADLINE;
        loop {
            match self.said(&line) {
                Ok(said) => return serde_json::from_str(&said).map_err(|err| format!("{err} in {said}")),
                // Until it listens.
                Err(why) if why.contains("no workload answers") && Instant::now() < end => {}
                Err(why) => return Err(why),
            }
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let id = self.id.as_str();
        for words in [
            &["ctr", "task", "kill", "--all", "--signal", "SIGKILL", id][..],
            &["ctr", "task", "delete", "--force", id],
            &["ctr", "container", "delete", id],
            &["ctr", "image", "rm", &format!("localhost/kit/{id}:1")],
        ] {
            let _ = ok(words);
        }
    }
}
