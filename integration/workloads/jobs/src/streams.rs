//! Pinned host memory and two streams that are never both idle.
//!
//! ```text
//! up:    … copy input r ── (event) ── count …
//! down:            └──── add ── spin ── copy the sum back ── (event) …
//! ```
//! Round r + 1 is under way before the result of round r is looked at. Input r is `(r + i) mod 2^20`, what is added
//! to it `i`: sums that 32-bit floats hold exactly.

use baton_cuda::{Context, DeviceMemory, Driver, Event, Kernels, Pinned, Registered, Stream};

use crate::report::Report;
use crate::tally::Tally;
use crate::work::Work;

/// Floats in a round.
const FLOATS: usize = 64 << 10;
/// How long the card works on each, at least.
const BUSY_MS: u64 = 2;
/// Rounds under way at a time.
const SLOTS: usize = 2;

/// Both streams, and the rounds on them.
pub struct Streams {
    // Dropped in this order: a stream waits for its work, whose memory is freed after it.
    up: Stream,
    down: Stream,
    slots: Vec<Slot>,
    added: DeviceMemory,
    kernels: Kernels,
    tally: Tally,
    damaged: u64,
    step: u64,
}

struct Slot {
    input: Pinned,
    sums: Registered,
    on_card: DeviceMemory,
    sums_on_card: DeviceMemory,
    copied: Event,
    done: Event,
    round: Option<u64>,
}

impl Slot {
    fn new(context: &Context) -> Result<Slot, String> {
        Ok(Slot {
            input: Pinned::take(context, FLOATS * 4)?,
            sums: Registered::take(context, FLOATS * 4)?,
            on_card: DeviceMemory::take(context, FLOATS * 4)?,
            sums_on_card: DeviceMemory::take(context, FLOATS * 4)?,
            copied: Event::new(context)?,
            done: Event::new(context)?,
            round: None,
        })
    }

    /// Waits for the round that it has, and counts the sums that are wrong.
    fn finish(&mut self) -> Result<u64, String> {
        let Some(round) = self.round.take() else { return Ok(0) };
        self.done.synchronize()?;
        let found = self.sums.bytes().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        Ok(found.zip(0..FLOATS as u64).filter(|(sum, index)| *sum != term(round, *index) + *index as f32).count()
            as u64)
    }
}

/// What goes up in a round.
fn term(round: u64, index: u64) -> f32 {
    (round.wrapping_add(index) % (1 << 20)) as f32
}

impl Streams {
    /// Begins on the first card.
    pub fn begin() -> Result<Streams, String> {
        let context = Driver::open()?.card().context()?;
        let added = DeviceMemory::take(&context, FLOATS * 4)?;
        added.write(0, &(0..FLOATS).flat_map(|index| (index as f32).to_le_bytes()).collect::<Vec<_>>())?;
        Ok(Streams {
            up: Stream::new(&context)?,
            down: Stream::new(&context)?,
            slots: (0..SLOTS).map(|_| Slot::new(&context)).collect::<Result<_, _>>()?,
            added,
            kernels: context.kernels()?,
            tally: Tally::begin(&context)?,
            damaged: 0,
            step: 0,
        })
    }
}

impl Work for Streams {
    fn step(&mut self) -> Result<(), String> {
        self.step += 1;
        let round = self.step;
        let slot = &mut self.slots[round as usize % SLOTS];
        self.damaged += slot.finish()?;
        let terms = (0..FLOATS as u64).map(|index| term(round, index).to_le_bytes());
        slot.input.bytes_mut().as_chunks_mut::<4>().0.iter_mut().zip(terms).for_each(|(to, from)| *to = from);
        // SAFETY: the slot's memory stays, and is left alone until its `done` is reached, or its stream has ended.
        unsafe {
            slot.on_card.write_on(&self.up, slot.input.pointer())?;
            slot.copied.record(&self.up)?;
            self.down.wait_for(&slot.copied)?;
            self.kernels.add(&slot.on_card, &self.added, &slot.sums_on_card, &self.down)?;
            self.kernels.spin(BUSY_MS, Some(&self.down))?;
            slot.sums_on_card.read_on(&self.down, slot.sums.pointer())?;
        }
        slot.done.record(&self.down)?;
        slot.round = Some(round);
        self.tally.step(Some(&self.up))
    }

    fn report(&mut self) -> Result<Report, String> {
        for slot in &mut self.slots {
            self.damaged += slot.finish()?;
        }
        Ok(Report {
            workload: "streams".to_owned(),
            step: self.step,
            memory: ((2 * SLOTS + 1) * FLOATS * 4) as u64,
            damaged: self.damaged,
            parts: vec![self.tally.part()?],
            ..Report::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sum_is_a_whole_number_that_a_float_holds() {
        let largest = term((1 << 20) - 1, 0) + (FLOATS - 1) as f32;
        assert!(largest < (1 << 24) as f32);
        assert_eq!(term(3, 4), 7.0);
        assert_eq!(term(1 << 20, 5), 5.0);
        assert_ne!(term(3, 4), term(4, 4));
    }
}
