//! The gate that every CUDA call passes: a locked process lets nobody in and has nobody inside.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Open at first.
#[derive(Debug)]
pub struct Gate {
    state: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inside {
    open: bool,
    calls: usize,
}

/// A call that is inside.
#[derive(Debug)]
pub struct Call<'g>(&'g Gate);

impl Gate {
    /// An open gate.
    pub fn new() -> Gate {
        Gate { state: Mutex::new(Inside { open: true, calls: 0 }), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, Inside> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes in, as soon as the gate is open.
    pub fn enter(&self) -> Call<'_> {
        let mut state =
            self.changed.wait_while(self.state(), |state| !state.open).unwrap_or_else(PoisonError::into_inner);
        state.calls += 1;
        Call(self)
    }

    /// Closes the gate and waits until nobody is inside; after `patience` it opens it again and returns false.
    pub fn close(&self, patience: Option<Duration>) -> bool {
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut state = self.state();
        state.open = false;
        while state.calls > 0 {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => {
                    state.open = true;
                    self.changed.notify_all();
                    return false;
                }
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        true
    }

    /// Lets calls in again.
    pub fn open(&self) {
        self.state().open = true;
        self.changed.notify_all();
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.state().calls -= 1;
        self.0.changed.notify_all();
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
    fn closing_ends_when_the_last_call_leaves() {
        let gate = Gate::new();
        let call = gate.enter();
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| gate.close(None));
            drop(call);
            assert!(closing.join().expect("no panic"));
        });
    }
}
