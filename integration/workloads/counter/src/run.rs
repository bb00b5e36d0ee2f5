//! Counting.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use baton_workload::asking::serve;
use baton_workload::pattern;
use baton_workload::signals::end_on_signals;

use crate::place::Place;
use crate::report;

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Pause between two steps.
    pub interval_ms: u64,
    /// Additional device memory in bytes.
    pub memory: u64,
    /// Count without a GPU.
    pub cpu: bool,
    /// Where to listen; `None` for the first usable of [`report::SOCKET`].
    pub socket: Option<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { interval_ms: 10, memory: 0, cpu: false, socket: None }
    }
}

/// A line of progress comes after this many steps, and one piece of the additional memory is verified.
const LINE_EVERY: u64 = 100;

/// What the counting thread and those that report share.
pub struct Counter {
    /// Where the count is.
    pub place: Place,
    step: Mutex<u64>,
    stepped: Condvar,
    damaged: AtomicU64,
}

impl Counter {
    /// Waits until that many steps are done.
    pub fn wait_for(&self, wanted: u64) {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.stepped.wait_while(step, |step| *step < wanted).unwrap_or_else(PoisonError::into_inner));
    }

    /// Verifies all additional memory; the number of damaged pieces, with those found while counting.
    pub fn damage(&self) -> Result<u64, String> {
        let mut damaged = 0;
        for index in 0..pattern::pieces(self.place.bytes()) {
            damaged += u64::from(!self.place.piece_is_right(index)?);
        }
        Ok(damaged.max(self.damaged.load(Ordering::Relaxed)))
    }
}

/// Counts until told to stop.
pub fn run(settings: &Settings) -> Result<(), String> {
    end_on_signals();
    let place = if settings.cpu { Place::on_cpu() } else { Place::on_gpu(settings.memory)? };
    let listener = report::SOCKET.listen(settings.socket.as_deref())?;
    let counter = Arc::new(Counter { place, step: Mutex::new(0), stepped: Condvar::new(), damaged: AtomicU64::new(0) });
    serve(listener, Arc::clone(&counter), report::answer);
    let mut step = 0;
    loop {
        counter.place.step()?;
        step += 1;
        *counter.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
        counter.stepped.notify_all();
        if step % LINE_EVERY == 0 {
            progress(&counter, step / LINE_EVERY)?;
        }
        if settings.interval_ms > 0 {
            std::thread::sleep(Duration::from_millis(settings.interval_ms));
        }
    }
}

fn progress(counter: &Counter, turn: u64) -> Result<(), String> {
    let count = counter.place.count()?;
    // Nobody may be reading; counting goes on all the same.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "step {} checksum {:016x}", count.step, count.checksum).and_then(|()| out.flush());
    let pieces = pattern::pieces(counter.place.bytes());
    if pieces > 0 && !counter.place.piece_is_right(turn % pieces)? {
        counter.damaged.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
