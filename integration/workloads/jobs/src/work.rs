//! Running a workload: one thread makes steps, others answer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_workload::asking::serve;
use baton_workload::signals::end_on_signals;

use crate::report::Report;
use crate::socket;

/// Something that goes on step by step on a card.
pub trait Work: Send {
    /// One step.
    fn step(&mut self) -> Result<(), String>;

    /// What it is now, beside what it must be.
    fn report(&mut self) -> Result<Report, String>;

    /// Looks at all the memory that it keeps, which may take a while; damage shows in the next report.
    fn verify(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pace {
    /// Pause between two steps.
    pub interval: Duration,
    /// Steps after which it ends with its verdict; none: it goes on until it is killed.
    pub steps: Option<u64>,
    /// Where to listen; none: the first usable of [`socket::SOCKET`].
    pub socket: Option<String>,
}

/// What the thread that makes steps shares with those that answer.
pub struct Shared {
    work: Mutex<Box<dyn Work>>,
    step: Mutex<u64>,
    stepped: Condvar,
}

impl Shared {
    /// Waits until so many steps are made.
    pub fn wait_for(&self, wanted: u64) {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.stepped.wait_while(step, |step| *step < wanted).unwrap_or_else(PoisonError::into_inner));
    }

    /// What the workload is between two steps.
    pub fn report(&self) -> Result<Report, String> {
        self.work().report()
    }

    /// The same, after a look at all of its memory.
    pub fn verified(&self) -> Result<Report, String> {
        let mut work = self.work();
        work.verify()?;
        work.report()
    }

    fn work(&self) -> MutexGuard<'_, Box<dyn Work>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes steps until there are enough, answers on a socket, and judges the result.
pub fn run(work: Box<dyn Work>, pace: &Pace) -> Result<(), String> {
    let listener = socket::SOCKET.listen(pace.socket.as_deref())?;
    let report = make_steps(work, pace, |shared| serve(listener, shared, socket::answer))?;
    say(&report.json());
    report.verdict()
}

/// Makes steps until there are enough, beside what `answer` starts.
pub fn make_steps(work: Box<dyn Work>, pace: &Pace, answer: impl FnOnce(Arc<Shared>)) -> Result<Report, String> {
    end_on_signals();
    let shared = Arc::new(Shared { work: Mutex::new(work), step: Mutex::new(0), stepped: Condvar::new() });
    answer(Arc::clone(&shared));
    let mut step = 0;
    while pace.steps.is_none_or(|last| step < last) {
        shared.work().step()?;
        step += 1;
        *shared.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
        shared.stepped.notify_all();
        // Also the moment in which a question gets its turn.
        std::thread::sleep(pace.interval);
    }
    shared.verified()
}

/// Nobody may be reading; the work goes on all the same.
fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
