//! `cuLaunchKernel…`.

use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::Arc;

use crate::call::{Inside, inside};
use crate::codes::{Code, Outcome};
use crate::driver::Driver;
use crate::kernel::Kernel;
use crate::table::Handle;

/// Threads of a block in each direction and in all, blocks of a grid in each direction: the same on all cards here (CUDA
/// programming guide, table of technical specifications).
pub const MOST_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Threads of a block.
pub const MOST_THREADS: u32 = 1024;
/// Blocks of a grid.
pub const MOST_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Shared memory of a block that is there without asking, in bytes.
pub const SHARED_MEMORY: u32 = 48 << 10;

/// `CU_LAUNCH_PARAM_BUFFER_POINTER` and `_BUFFER_SIZE`.
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// `CUlaunchConfig` of cuda.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    /// Where it is done.
    pub stream: Handle,
    attributes: *const c_void,
    attribute_count: u32,
}

// As `cuda.h` of CUDA 12.9 and 13.5 lays it out.
const _: () = {
    assert!(size_of::<Config>() == 56);
    assert!(offset_of!(Config, grid) == 0 && offset_of!(Config, block) == 12);
    assert!(offset_of!(Config, shared_bytes) == 24 && offset_of!(Config, stream) == 32);
    assert!(offset_of!(Config, attributes) == 40 && offset_of!(Config, attribute_count) == 48);
};

impl Config {
    /// Without attributes.
    fn plain(grid: [u32; 3], block: [u32; 3], shared_bytes: u32, stream: Handle) -> Config {
        Config { grid, block, shared_bytes, stream, attributes: std::ptr::null(), attribute_count: 0 }
    }

    fn check(&self) -> Outcome {
        let fits =
            |sizes: [u32; 3], most: [u32; 3]| sizes.iter().zip(most).all(|(size, most)| (1..=most).contains(size));
        let threads: u64 = self.block.iter().map(|size| u64::from(*size)).product();
        let shared = self.shared_bytes <= SHARED_MEMORY;
        let all = fits(self.grid, MOST_GRID) && fits(self.block, MOST_BLOCK) && threads <= u64::from(MOST_THREADS);
        if all && shared { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
}

/// Reads one parameter of 1 to 8 bytes.
///
/// # Safety
///
/// `size` bytes must be readable at `from`.
unsafe fn parameter(from: *const u8, size: usize) -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: promised by the caller; no parameter is longer than 8 bytes.
    unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), size.min(8)) };
    u64::from_le_bytes(bytes)
}

/// The parameters of a launch, from pointers to each or from a block of all.
///
/// # Safety
///
/// What is not null must be as `cuLaunchKernel` wants it.
unsafe fn parameters(kernel: &Kernel, each: *const *const u8, extra: *const usize) -> Outcome<Vec<u64>> {
    if !each.is_null() {
        if !extra.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let read = |(index, size): (usize, &usize)| {
            // SAFETY: as many pointers as the kernel has parameters.
            let from = unsafe { each.add(index).read() };
            // SAFETY: each points to a parameter.
            if from.is_null() { Err(Code::INVALID_VALUE) } else { Ok(unsafe { parameter(from, *size) }) }
        };
        return kernel.parameters.iter().enumerate().map(read).collect();
    }
    if extra.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let (mut block, mut length, mut at) = (std::ptr::null::<u8>(), 0usize, 0);
    loop {
        // SAFETY: the list ends with CU_LAUNCH_PARAM_END, which is 0; every other entry has a value.
        match unsafe { (extra.add(at).read(), extra.add(at + 1)) } {
            (0, _) => break,
            // SAFETY: the value is the address of the block.
            (BUFFER_POINTER, value) => block = unsafe { value.read() } as *const u8,
            // SAFETY: the value is the address of the size.
            (BUFFER_SIZE, value) => length = unsafe { (value.read() as *const usize).read() },
            _ => return Err(Code::INVALID_VALUE),
        }
        at += 2;
    }
    let read = |(offset, size): (usize, &usize)| {
        let inside = !block.is_null() && offset + size <= length;
        // SAFETY: inside the block that the program gave.
        if inside { Ok(unsafe { parameter(block.add(offset), *size) }) } else { Err(Code::INVALID_VALUE) }
    };
    kernel.offsets().into_iter().zip(kernel.parameters).map(read).collect()
}

fn submit(inside: &Inside, kernel: &'static Kernel, config: Config, parameters: Vec<u64>) -> Outcome {
    let mut parts = inside.parts();
    let stream = parts.stream(config.stream)?;
    let before = parts.work_before(&stream);
    drop(parts);
    let job = move |health: Outcome| {
        health?;
        kernel.run(Driver::get()?, &parameters)
    };
    Arc::clone(&stream).submit(&inside.place, before, Box::new(job)).map(drop)
}

/// # Safety
///
/// As for the functions below.
unsafe fn launch(name: &str, function: Handle, config: Config, each: *const *const u8, extra: *const usize) -> i32 {
    inside(name, |inside| {
        let function = {
            let parts = inside.parts();
            parts.current()?;
            parts.modules.function(function)?
        };
        config.check()?;
        // SAFETY: the C caller gives parameters as the kernel wants them.
        let parameters = unsafe { parameters(function.kernel, each, extra) }?;
        submit(inside, function.kernel, config, parameters)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: Handle,
    parameters: *const *const u8,
    extra: *const usize,
) -> i32 {
    let config = Config::plain([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes, stream);
    // SAFETY: as the C caller promises.
    unsafe { launch("cuLaunchKernel", function, config, parameters, extra) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchCooperativeKernel(
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: Handle,
    parameters: *const *const u8,
) -> i32 {
    let config = Config::plain([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes, stream);
    // SAFETY: as the C caller promises.
    unsafe { launch("cuLaunchCooperativeKernel", function, config, parameters, std::ptr::null()) }
}

/// Launch attributes say how threads are placed: nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernelEx(
    config: *const Config,
    function: Handle,
    parameters: *const *const u8,
    extra: *const usize,
) -> i32 {
    if config.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: not null, and the C caller gives a whole description.
    unsafe { launch("cuLaunchKernelEx", function, config.read(), parameters, extra) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KERNELS;

    fn config(grid: [u32; 3], block: [u32; 3], shared_bytes: u32) -> Outcome {
        Config { grid, block, shared_bytes, stream: 0, attributes: std::ptr::null(), attribute_count: 0 }.check()
    }

    #[test]
    fn a_launch_keeps_to_the_limits_of_a_card() {
        for (grid, block, shared) in [
            ([1, 1, 1], [1024, 1, 1], 0),
            ([i32::MAX as u32, 65535, 65535], [32, 32, 1], 48 << 10),
            ([1, 1, 1], [16, 1, 64], 0),
        ] {
            assert_eq!(config(grid, block, shared), Ok(()), "{grid:?} {block:?}");
        }
        for (grid, block, shared) in [
            ([0, 1, 1], [1, 1, 1], 0),
            ([1, 1, 1], [1025, 1, 1], 0),
            ([1, 1, 1], [32, 33, 1], 0),
            ([1, 1, 1], [1, 1, 65], 0),
            ([1, 65536, 1], [1, 1, 1], 0),
            ([1, 1, 1], [1, 1, 1], (48 << 10) + 1),
        ] {
            assert_eq!(config(grid, block, shared), Err(Code::INVALID_VALUE), "{grid:?} {block:?}");
        }
    }

    #[test]
    fn parameters_come_one_by_one_or_in_a_block() {
        let add = &KERNELS[3];
        let (a, b, out, n) = (1u64, 2u64, 3u64, 4u32);
        let places =
            [(&raw const a).cast(), (&raw const b).cast(), (&raw const out).cast(), (&raw const n).cast::<u8>()];
        // SAFETY: a pointer for each parameter.
        let each = unsafe { parameters(add, places.as_ptr(), std::ptr::null()) };
        assert_eq!(each, Ok(vec![1, 2, 3, 4]));
        let block = [1u64, 2, 3, 4];
        for (length, wanted) in [(28usize, Ok(vec![1, 2, 3, 4])), (27, Err(Code::INVALID_VALUE))] {
            let extra = [1, block.as_ptr() as usize, 2, (&raw const length) as usize, 0, 0];
            // SAFETY: the list is as cuda.h describes it.
            assert_eq!(unsafe { parameters(add, std::ptr::null(), extra.as_ptr()) }, wanted);
        }
        // SAFETY: nothing is given.
        assert_eq!(unsafe { parameters(add, std::ptr::null(), std::ptr::null()) }, Err(Code::INVALID_VALUE));
    }
}
