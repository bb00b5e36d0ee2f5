//! The gate that every CUDA call passes: a locked process lets nobody in and has nobody inside.
//!
//! It is one word, changed in one step, so a thread may be stopped anywhere without being in anybody's way:
//!
//! ```text
//! bit 31: closed | bits 0–30: calls and submitted work inside
//! ```

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::futex;

const CLOSED: u32 = 1 << 31;

/// Open at first.
#[derive(Debug)]
pub struct Gate(AtomicU32);

/// A call, or a piece of work that it submitted, that is inside.
#[derive(Debug)]
pub struct Call<'g>(&'g Gate);

impl Gate {
    /// An open gate.
    pub fn new() -> Gate {
        Gate(AtomicU32::new(0))
    }

    /// Goes in, as soon as the gate is open.
    pub fn enter(&self) -> Call<'_> {
        let mut seen = self.0.load(Ordering::SeqCst);
        loop {
            if seen & CLOSED != 0 {
                futex::wait(&self.0, seen, None);
                seen = self.0.load(Ordering::SeqCst);
                continue;
            }
            match self.0.compare_exchange_weak(seen, seen + 1, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Call(self),
                Err(other) => seen = other,
            }
        }
    }

    /// Closes the gate and waits until nobody is inside; after `patience` it opens it again and returns false.
    pub fn close(&self, patience: Option<Duration>) -> bool {
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut seen = self.0.fetch_or(CLOSED, Ordering::SeqCst) | CLOSED;
        while seen != CLOSED {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                self.open();
                return false;
            }
            futex::wait(&self.0, seen, left);
            seen = self.0.load(Ordering::SeqCst);
        }
        true
    }

    /// Lets calls in again.
    pub fn open(&self) {
        self.0.fetch_and(!CLOSED, Ordering::SeqCst);
        futex::wake(&self.0);
    }
}

impl Clone for Call<'_> {
    /// One more inside: work that the call leaves behind. Also through a gate that has closed since.
    fn clone(&self) -> Self {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        Call(self.0)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.0.0.fetch_sub(1, Ordering::SeqCst) == CLOSED + 1 {
            futex::wake(&self.0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_closed_gate_holds_calls_until_it_opens() {
        let gate = Gate::new();
        assert!(gate.close(None));
        let (tell, hear) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _call = gate.enter();
                tell.send(()).expect("heard");
            });
            assert!(hear.recv_timeout(Duration::from_millis(50)).is_err());
            gate.open();
            hear.recv_timeout(Duration::from_secs(10)).expect("let in");
        });
    }

    #[test]
    fn a_call_inside_makes_closing_time_out_and_leaves_the_gate_open() {
        let gate = Gate::new();
        let call = gate.enter();
        assert!(!gate.close(Some(Duration::from_millis(20))));
        drop(gate.enter());
        drop(call);
        assert!(gate.close(Some(Duration::from_millis(20))));
    }

    #[test]
    fn closing_ends_when_the_last_call_and_its_work_have_left() {
        let gate = Gate::new();
        let call = gate.enter();
        let (tell, hear) = mpsc::channel();
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| {
                let closed = gate.close(None);
                tell.send(closed).expect("heard");
            });
            // Work is left behind by a call that is inside a gate about to close.
            let work = call.clone();
            drop(call);
            assert!(hear.recv_timeout(Duration::from_millis(50)).is_err());
            drop(work);
            closing.join().expect("no panic");
            assert_eq!(hear.recv(), Ok(true));
        });
    }

    #[test]
    fn thousands_of_calls_come_and_go_while_the_gate_opens_and_closes() {
        let gate = Gate::new();
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5000 {
                        let call = gate.enter();
                        inside.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(call);
                    }
                });
            }
            for _ in 0..200 {
                assert!(gate.close(None));
                assert_eq!(inside.load(Ordering::SeqCst), 0);
                gate.open();
            }
        });
    }
}
