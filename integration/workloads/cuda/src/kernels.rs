//! The kernels of `integration/workloads/kernels/baton.ptx`.

use std::ffi::{CStr, c_void};

use crate::{Context, DeviceMemory, Result, Stream};

/// Their text, for the driver to compile: NUL-terminated.
pub const PTX: &str = concat!(include_str!("../../kernels/baton.ptx"), "\0");

/// Threads in a block, where a kernel has work for many.
const BLOCK: u32 = 256;
/// Blocks at most: the kernels go round.
const GRID_MAX: u32 = 256;

/// The kernels, compiled for one card. One that a driver does not know is missed when it is launched.
#[derive(Debug, Clone)]
pub struct Kernels {
    context: Context,
    count_step: Result<usize>,
    train_step: Result<usize>,
    add: Result<usize>,
    spin: Result<usize>,
}

impl Kernels {
    pub(crate) fn load(context: &Context) -> Result<Kernels> {
        context.use_here()?;
        let mut module = 0;
        // SAFETY: a place for a handle, and a NUL-terminated text.
        unsafe { context.calls().load_module(&raw mut module, PTX.as_ptr().cast()) }?;
        let find = |name: &CStr| {
            let mut function = 0;
            // SAFETY: a place for a handle, an open module, a NUL-terminated name.
            unsafe { context.calls().function(&raw mut function, module, name.as_ptr()) }?;
            Ok(function)
        };
        Ok(Kernels {
            context: context.clone(),
            count_step: find(c"baton_count_step"),
            train_step: find(c"baton_train_step"),
            add: find(c"baton_add"),
            spin: find(c"baton_spin"),
        })
    }

    /// # Safety
    ///
    /// The parameters must be those of the kernel, in order.
    unsafe fn launch(
        &self,
        function: &Result<usize>,
        threads: u64,
        stream: Option<&Stream>,
        words: &mut [u64],
    ) -> Result<()> {
        let function = function.clone()?;
        self.context.use_here()?;
        let blocks = threads.div_ceil(u64::from(BLOCK)).clamp(1, u64::from(GRID_MAX)) as u32;
        let block = if threads == 1 { 1 } else { BLOCK };
        let mut parameters: Vec<*mut c_void> = words.iter_mut().map(|word| (&raw mut *word).cast()).collect();
        let (stream, none) = (stream.map_or(0, Stream::handle), std::ptr::null_mut());
        // SAFETY: the driver reads the parameters, at their addresses, before it returns.
        unsafe {
            let at = parameters.as_mut_ptr();
            self.context.calls().launch(function, blocks, 1, 1, block, 1, 1, 0, stream, at, none)
        }
    }

    /// One step of the count in the 16 bytes of `state`; on the default stream where none is given.
    pub fn count_step(&self, state: &DeviceMemory, stream: Option<&Stream>) -> Result<()> {
        assert!(state.bytes() >= 16, "a count has 16 bytes");
        // SAFETY: one pointer, to 16 bytes.
        unsafe { self.launch(&self.count_step, 1, stream, &mut [state.pointer()]) }
    }

    /// One step of training over all of `weights`, which are 64-bit.
    pub fn train_step(&self, weights: &DeviceMemory, step: u64) -> Result<()> {
        let count = weights.bytes() as u64 / 8;
        // SAFETY: a pointer to that many weights, their number, the step.
        unsafe { self.launch(&self.train_step, count, None, &mut [weights.pointer(), count, step]) }
    }

    /// Adds 32-bit floats, as many as `sum` holds.
    pub fn add(&self, one: &DeviceMemory, other: &DeviceMemory, sum: &DeviceMemory, stream: &Stream) -> Result<()> {
        assert!(one.bytes().min(other.bytes()) >= sum.bytes(), "terms shorter than their sum");
        let count = sum.bytes() as u64 / 4;
        let mut words = [one.pointer(), other.pointer(), sum.pointer(), count];
        // SAFETY: three pointers and their number of floats; the last parameter is 32 bits, the low ones of the word.
        unsafe { self.launch(&self.add, count, Some(stream), &mut words) }
    }

    /// Keeps the card busy for that long.
    pub fn spin(&self, milliseconds: u64, stream: Option<&Stream>) -> Result<()> {
        // SAFETY: one number.
        unsafe { self.launch(&self.spin, 1, stream, &mut [milliseconds]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_every_kernel_and_ends_with_a_nul() {
        for name in ["baton_count_step", "baton_train_step", "baton_add", "baton_spin"] {
            assert!(PTX.contains(&format!(".visible .entry {name}(")), "{name}");
        }
        assert_eq!(PTX.find('\0'), Some(PTX.len() - 1));
        assert!(PTX.is_ascii());
    }
}
