//! The kernels that are built in. A program's PTX text says which of them it has; what they do is what the text of
//! `integration/workloads/kernels` does, whatever the grid.
//!
//! | kernel | parameters | effect of one launch |
//! |---|---|---|
//! | `baton_count_step` | `u64 *state` | `state[0]` += 1, then `state[1]` = `mix(state[1], state[0])` |
//! | `baton_spin` | `u64 ms` | runs for that long, to be in flight when a lock comes |
//! | `baton_train_step` | `u64 *weights, u64 count, u64 step` | `weights[i]` = `mix(weights[i] + i, step)` for `i < count` |
//! | `baton_add` | `const float *a, const float *b, float *out, u32 n` | `out[i]` = `a[i] + b[i]` for `i < n` |
//!
//! `mix(c, s)` is splitmix64's finalizer of `(c ^ s) + 0x9e3779b97f4a7c15`; sums wrap.

use std::ffi::CStr;
use std::time::Duration;

use crate::codes::{Code, Outcome};
use crate::driver::Driver;
use crate::span::Span;

/// One kernel.
#[derive(Debug)]
pub struct Kernel {
    /// As `.entry` names it.
    pub name: &'static CStr,
    /// Bytes of each parameter, which is also what it is aligned to.
    pub parameters: &'static [usize],
    run: fn(&Driver, &[u64]) -> Outcome,
}

/// All of them.
pub static KERNELS: [Kernel; 4] = [
    Kernel { name: c"baton_count_step", parameters: &[8], run: count_step },
    Kernel { name: c"baton_spin", parameters: &[8], run: spin },
    Kernel { name: c"baton_train_step", parameters: &[8, 8, 8], run: train_step },
    Kernel { name: c"baton_add", parameters: &[8, 8, 8, 4], run: add },
];

impl Kernel {
    /// Runs it on parameters, one word each.
    pub fn run(&self, driver: &Driver, parameters: &[u64]) -> Outcome {
        (self.run)(driver, parameters)
    }

    /// Where each parameter lies in a block of all: each at a multiple of its size.
    pub fn offsets(&self) -> Vec<usize> {
        let mut end = 0usize;
        let place = |size: &usize| {
            let at = end.next_multiple_of(*size);
            end = at + size;
            at
        };
        self.parameters.iter().map(place).collect()
    }
}

/// The next checksum.
fn mix(checksum: u64, step: u64) -> u64 {
    let mut mixed = (checksum ^ step).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// `count` elements of `size` bytes at a pointer that a kernel was given.
fn elements(driver: &Driver, pointer: u64, count: u64, size: u64) -> Outcome<Span> {
    if !pointer.is_multiple_of(size) {
        return Err(Code::MISALIGNED_ADDRESS);
    }
    let length = count.checked_mul(size).and_then(|length| usize::try_from(length).ok());
    let length = length.ok_or(Code::ILLEGAL_ADDRESS)?;
    driver.parts().memory.span(pointer, length).map_err(|_| Code::ILLEGAL_ADDRESS)
}

fn count_step(driver: &Driver, parameters: &[u64]) -> Outcome {
    let state = elements(driver, parameters[0], 2, 8)?.start().cast::<u64>();
    // SAFETY: two aligned words of a span that stays mapped; who else writes there is the program's affair.
    unsafe {
        let step = state.read().wrapping_add(1);
        let checksum = mix(state.add(1).read(), step);
        state.write(step);
        state.add(1).write(checksum);
    }
    Ok(())
}

fn spin(_: &Driver, parameters: &[u64]) -> Outcome {
    std::thread::sleep(Duration::from_millis(parameters[0]));
    Ok(())
}

fn train_step(driver: &Driver, parameters: &[u64]) -> Outcome {
    let (count, step) = (parameters[1], parameters[2]);
    let weights = elements(driver, parameters[0], count, 8)?;
    let first = weights.start().cast::<u64>();
    for index in 0..count {
        // SAFETY: one of the `count` aligned words of a span that stays mapped.
        unsafe {
            let place = first.add(index as usize);
            place.write(mix(place.read().wrapping_add(index), step));
        }
    }
    Ok(())
}

fn add(driver: &Driver, parameters: &[u64]) -> Outcome {
    let count = parameters[3] & u64::from(u32::MAX);
    let spans = [0, 1, 2].map(|index| elements(driver, parameters[index], count, 4));
    let [a, b, out] = spans;
    let (a, b, out) = (a?, b?, out?);
    for index in 0..count as usize {
        // SAFETY: one of the `count` aligned floats of each span; they stay mapped.
        unsafe {
            let sum = a.start().cast::<f32>().add(index).read() + b.start().cast::<f32>().add(index).read();
            out.start().cast::<f32>().add(index).write(sum);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_splitmix64() {
        // The first output of splitmix64 with seed 0, a published value.
        assert_eq!(mix(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0, 1), mix(1, 0));
    }

    #[test]
    fn parameters_lie_where_the_compiler_puts_them() {
        assert_eq!(KERNELS[3].offsets(), [0, 8, 16, 24]);
        let mixed = Kernel { name: c"", parameters: &[4, 8, 2, 4], run: spin };
        assert_eq!(mixed.offsets(), [0, 8, 16, 20]);
    }
}
