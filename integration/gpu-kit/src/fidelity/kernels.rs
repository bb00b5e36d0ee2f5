//! The workloads' kernels.

use std::time::Instant;

use baton_cuda::{DeviceMemory, Driver, Stream};
use baton_workload::count::{self, Count, mix};

use super::milliseconds;
use crate::check::{Notes, Verdict, demand};

/// Counting, training and adding, each beside what the processor computes.
pub fn compute(notes: &mut Notes) -> Verdict {
    let context = Driver::open()?.card().context()?;
    let begun = Instant::now();
    let kernels = context.kernels()?;
    notes.note(format!("compiling them: {}", milliseconds(begun.elapsed())));

    let state = DeviceMemory::zeroed(&context, 16)?;
    (0..1000).try_for_each(|_| kernels.count_step(&state, None))?;
    let mut bytes = [0u8; 16];
    context.synchronize()?;
    state.read(0, &mut bytes)?;
    let right = Count { step: 1000, checksum: count::expected(1000) };
    demand(Count::from_bytes(bytes) == right, || format!("it counted {:?}, not {right:?}", Count::from_bytes(bytes)))?;

    let weights = DeviceMemory::zeroed(&context, 8 * 100_003)?;
    (1..=3).try_for_each(|step| kernels.train_step(&weights, step))?;
    context.synchronize()?;
    let mut found = vec![0u8; weights.bytes()];
    weights.read(0, &mut found)?;
    let wrong = found.as_chunks::<8>().0.iter().zip(0u64..).filter(|(word, index)| {
        u64::from_le_bytes(**word) != (1..=3).fold(0u64, |weight, step| mix(weight.wrapping_add(*index), step))
    });
    let wrong = wrong.count();
    demand(wrong == 0, || format!("{wrong} of 100003 weights are wrong"))?;

    let floats = |factor: f32| (0..1000).flat_map(|index| (index as f32 * factor).to_le_bytes()).collect::<Vec<u8>>();
    let terms = [DeviceMemory::take(&context, 4000)?, DeviceMemory::take(&context, 4000)?];
    let sum = DeviceMemory::zeroed(&context, 4000)?;
    terms[0].write(0, &floats(1.0))?;
    terms[1].write(0, &floats(2.0))?;
    let stream = Stream::new(&context)?;
    kernels.add(&terms[0], &terms[1], &sum, &stream)?;
    stream.synchronize()?;
    let mut found = vec![0u8; 4000];
    sum.read(0, &mut found)?;
    demand(found == floats(3.0), || "the sums are wrong".to_owned())
}

/// 200 ms by the card's clock and by ours.
pub fn spin(notes: &mut Notes) -> Verdict {
    let context = Driver::open()?.card().context()?;
    let kernels = context.kernels()?;
    let begun = Instant::now();
    kernels.spin(200, None)?;
    context.synchronize()?;
    let took = begun.elapsed();
    notes.note(format!("200 ms took {}", milliseconds(took)));
    demand((190..2000).contains(&took.as_millis()), || format!("200 ms took {}", milliseconds(took)))
}
