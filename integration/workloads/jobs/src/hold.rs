//! Device memory, as much as is asked for, filled with a pattern that is verified on demand.

use std::sync::atomic::{AtomicU64, Ordering};

use baton_cuda::{DeviceMemory, Driver};
use baton_workload::pattern;

use crate::report::Report;
use crate::tally::Tally;
use crate::work::Work;

/// Threads that fill and verify, at most.
const THREADS_MAX: usize = 8;

/// The memory, and a count beside it that goes on.
pub struct Hold {
    tally: Tally,
    memory: DeviceMemory,
    damaged: u64,
}

impl Hold {
    /// Takes and fills so many bytes of the first card.
    pub fn begin(bytes: u64) -> Result<Hold, String> {
        let context = Driver::open()?.card().context()?;
        let memory = DeviceMemory::zeroed(&context, bytes as usize)?;
        let hold = Hold { tally: Tally::begin(&context)?, memory, damaged: 0 };
        // The first third is zero already.
        hold.for_each(pattern::pieces(bytes) / 3, |offset, piece| hold.memory.write(offset, piece).map(|()| 0))?;
        Ok(hold)
    }

    /// Calls `work` with the offset and the content of each piece from `first` on, several at a time; the sum.
    fn for_each(
        &self,
        first: u64,
        work: impl Fn(usize, &mut [u8]) -> baton_cuda::Result<u64> + Sync,
    ) -> Result<u64, String> {
        let (bytes, next) = (self.memory.bytes() as u64, AtomicU64::new(first));
        let go = || {
            let (mut piece, mut sum) = (vec![0u8; pattern::PIECE], 0);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= pattern::pieces(bytes) {
                    return Ok(sum);
                }
                let (offset, length) = pattern::extent(index, bytes);
                pattern::fill(index, bytes, &mut piece[..length]);
                sum += work(offset as usize, &mut piece[..length])?;
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        std::thread::scope(|scope| {
            let begun: Vec<_> = (0..threads).map(|_| scope.spawn(go)).collect();
            let end = |thread: std::thread::ScopedJoinHandle<'_, baton_cuda::Result<u64>>| match thread.join() {
                Ok(sum) => sum.map_err(String::from),
                Err(_) => Err("a thread panicked".to_owned()),
            };
            begun.into_iter().map(end).sum()
        })
    }
}

impl Work for Hold {
    fn step(&mut self) -> Result<(), String> {
        self.tally.step(None)?;
        Ok(self.tally.context().synchronize()?)
    }

    fn report(&mut self) -> Result<Report, String> {
        let part = self.tally.part()?;
        let (memory, damaged) = (self.memory.bytes() as u64, self.damaged);
        Ok(Report {
            workload: "hold".to_owned(),
            step: part.step,
            memory,
            damaged,
            parts: vec![part],
            ..Report::default()
        })
    }

    fn verify(&mut self) -> Result<(), String> {
        self.damaged = self.for_each(0, |offset, piece| {
            thread_local! {
                static FOUND: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
            }
            FOUND.with_borrow_mut(|found| {
                found.resize(piece.len(), 0);
                self.memory.read(offset, found)?;
                Ok(u64::from(found != piece))
            })
        })?;
        Ok(())
    }
}
