//! Copies at a speed that a test has ordered.

use std::time::{Duration, Instant};

/// How far a copy may have come by now.
#[derive(Debug)]
pub struct Pace {
    bytes_per_second: u64,
    started: Instant,
    copied: u64,
}

impl Pace {
    /// 0 means as fast as it goes.
    pub fn of(bytes_per_second: u64) -> Pace {
        Pace { bytes_per_second, started: Instant::now(), copied: 0 }
    }

    /// Waits until `bytes` more may have been copied.
    pub fn copied(&mut self, bytes: usize) {
        self.copied += bytes as u64;
        if self.bytes_per_second > 0 {
            let due = Duration::from_secs_f64(self.copied as f64 / self.bytes_per_second as f64);
            std::thread::sleep(due.saturating_sub(self.started.elapsed()));
        }
    }
}
