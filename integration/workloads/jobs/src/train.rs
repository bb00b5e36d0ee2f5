//! A loop like that of a training: weights that every step changes, each by what it was before.
//!
//! All weights are 0 at first; step `s` turns weight `i` into `mix(w + i, s)`. The checksum folds them in their order:
//! `mix(checksum, w)`, from 0. So it depends on every step, on their order, and on each of them being made once.

use baton_cuda::{Context, DeviceMemory, Driver, Kernels};
use baton_workload::count::mix;

use crate::report::{Part, Report};
use crate::work::Work;

/// The training.
pub struct Train {
    kernels: Kernels,
    weights: DeviceMemory,
    /// The same weights, computed here.
    right: Vec<u64>,
    step: u64,
}

impl Train {
    /// One with that many weights, on the first card.
    pub fn begin(weights: usize) -> Result<Train, String> {
        let context: Context = Driver::open()?.card().context()?;
        let memory = DeviceMemory::zeroed(&context, weights * 8)?;
        Ok(Train { kernels: context.kernels()?, weights: memory, right: vec![0; weights], step: 0 })
    }
}

/// One step on the processor.
fn train(weights: &mut [u64], step: u64) {
    for (index, weight) in weights.iter_mut().enumerate() {
        *weight = mix(weight.wrapping_add(index as u64), step);
    }
}

fn checksum(weights: impl IntoIterator<Item = u64>) -> u64 {
    weights.into_iter().fold(0, mix)
}

impl Work for Train {
    fn step(&mut self) -> Result<(), String> {
        self.step += 1;
        self.kernels.train_step(&self.weights, self.step)?;
        train(&mut self.right, self.step);
        Ok(self.weights.context().synchronize()?)
    }

    fn report(&mut self) -> Result<Report, String> {
        let mut bytes = vec![0u8; self.weights.bytes()];
        self.weights.read(0, &mut bytes)?;
        let found = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let part = Part {
            step: self.step,
            checksum: checksum(found),
            right: checksum(self.right.iter().copied()),
            gpu: self.weights.context().card().uuid()?,
        };
        let memory = self.weights.bytes() as u64;
        Ok(Report { workload: "train".to_owned(), step: self.step, memory, parts: vec![part], ..Report::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum after that many steps, from nothing else than their numbers.
    fn expected(weights: usize, steps: u64) -> u64 {
        let mut right = vec![0; weights];
        (1..=steps).for_each(|step| train(&mut right, step));
        checksum(right)
    }

    /// Computed apart from this program, in Python.
    #[test]
    fn the_checksum_after_n_steps_is_known() {
        assert_eq!(expected(1, 0), mix(0, 0));
        assert_eq!(expected(4, 1), FOUR_WEIGHTS_ONE_STEP);
        assert_eq!(expected(1024, 100), DEFAULT_HUNDRED);
    }

    #[test]
    fn a_lost_a_repeated_and_a_swapped_step_show() {
        let after = |steps: &[u64]| {
            let mut weights = vec![0; 16];
            steps.iter().for_each(|step| train(&mut weights, *step));
            checksum(weights)
        };
        assert_eq!(after(&[1, 2, 3]), expected(16, 3));
        for wrong in [&[1, 3][..], &[1, 2, 2, 3], &[2, 1, 3], &[1, 2, 3, 4]] {
            assert_ne!(after(wrong), expected(16, 3), "{wrong:?}");
        }
    }

    const FOUR_WEIGHTS_ONE_STEP: u64 = 0x0911_8e80_5deb_587e;
    const DEFAULT_HUNDRED: u64 = 0x5bd1_a1e8_9faa_05fb;
}
