//! A container of the suite.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::asked::{Asked, Status};
use crate::bed;
use crate::check::Notes;

/// The image in the kit.
pub const IMAGE: &str = "localhost/baton/counter:1";
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

/// A container; ended and removed with its images when dropped.
#[derive(Debug)]
pub struct Container {
    id: String,
}

impl Container {
    /// Starts a container of the kit's image with these cards.
    pub fn start(id: &str, cards: &str, command: &[&str]) -> Result<Container, String> {
        let cards = format!("NVIDIA_VISIBLE_DEVICES={cards}");
        Container::run(id, &[&["--env", &cards, IMAGE, id], command].concat())
    }

    /// Starts one of a saved image, which says all there is to say.
    pub fn restore(image: &str, notes: &mut Notes) -> Result<Container, String> {
        let (id, begun) = (image.rsplit(['/', ':']).nth(1).unwrap_or("restored"), Instant::now());
        let container = Container::run(&format!("{id}-back"), &[image, &format!("{id}-back")])?;
        notes.note(format!("restore: {} ms", begun.elapsed().as_millis()));
        Ok(container)
    }

    fn run(id: &str, words: &[&str]) -> Result<Container, String> {
        let container = Container { id: id.to_owned() };
        ok(&[&["ctr", "run", "-d", "--runtime", RUNTIME], words].concat())
            .map_err(|why| format!("{why}\ncontainerd said: {}", bed::errors()))?;
        Ok(container)
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Runs a command in it.
    pub fn exec(&self, command: &[&str]) -> Result<String, String> {
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
        let line = [&["/workload"], question].concat();
        let end = Instant::now() + BEGIN_DEADLINE;
        loop {
            match self.exec(&line) {
                Ok(said) if said.is_empty() => {}
                Ok(said) => return serde_json::from_str(&said).map_err(|err| format!("{err} in {said}")),
                // Until it listens; and where `ctr` has lost what was printed, as it does now and then with a program that
                // ends at once.
                Err(why) if (why.contains("no workload answers") || why.ends_with(": ")) && Instant::now() < end => {}
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
