//! Waiting for the thing itself, with a deadline.

use std::time::{Duration, Instant};

/// Longest wait for anything in a test: far more than it takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// Between two looks, so that looking does not keep the machine from what is waited for.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until there is something to see.
///
/// # Panics
/// When there is nothing at the deadline.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "waited {DEADLINE:?} in vain until {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Looks until both are equal.
///
/// # Panics
/// With both values, when they differ at the deadline.
pub fn until_equal<T: PartialEq + std::fmt::Debug>(what: &str, wanted: &T, mut look: impl FnMut() -> T) {
    let end = Instant::now() + DEADLINE;
    loop {
        let seen = look();
        if seen == *wanted {
            return;
        }
        assert!(Instant::now() < end, "waited in vain until {what}:\nwanted {wanted:#?}\nseen   {seen:#?}");
        std::thread::sleep(PAUSE);
    }
}
