//! Modules and the kernels that are built in.
//!
//! | kernel | parameters | effect of one launch |
//! |---|---|---|
//! | `baton_count_step` | `u64 *state` | `state[0]` += 1, then `state[1]` = `mix(state[1], state[0])` |
//! | `baton_spin` | `u64 ms` | runs for that long, to be in flight when a lock comes |
//!
//! `mix(c, s)` is splitmix64's finalizer of `(c ^ s) + 0x9e3779b97f4a7c15`.

use std::ffi::{CStr, c_char, c_void};
use std::time::Duration;

use crate::codes::{Code, Outcome, code_of, give};
use crate::context::current_slot;
use crate::driver::{Driver, Parts, call};

const COUNT_STEP: usize = 0x00f0_0001;
const SPIN: usize = 0x00f0_0002;
const MODULE: usize = 0x00e0_0001;

/// The next checksum.
fn mix(checksum: u64, step: u64) -> u64 {
    let mut mixed = (checksum ^ step).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn count_step(parts: &Parts, state: u64) -> Outcome {
    let place = parts.memory.find(state, 16).map_err(|_| Code::ILLEGAL_ADDRESS)?.cast::<u64>();
    // SAFETY: `place` has 16 bytes; only calls under the driver's lock touch device memory.
    unsafe {
        let step = place.read_unaligned().wrapping_add(1);
        let checksum = mix(place.add(1).read_unaligned(), step);
        place.write_unaligned(step);
        place.add(1).write_unaligned(checksum);
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut usize, image: *const c_void) -> i32 {
    call(|parts| {
        current_slot(parts)?;
        if image.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the C caller gives a place for a CUmodule.
        unsafe { give(module, MODULE) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: usize) -> i32 {
    call(|_| if module == MODULE { Ok(()) } else { Err(Code::INVALID_HANDLE) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) -> i32 {
    call(|_| {
        if module != MODULE || name.is_null() {
            return Err(Code::INVALID_HANDLE);
        }
        // SAFETY: the C caller gives a NUL-terminated name.
        let found = match unsafe { CStr::from_ptr(name) }.to_bytes() {
            b"baton_count_step" => COUNT_STEP,
            b"baton_spin" => SPIN,
            _ => return Err(Code::NOT_FOUND),
        };
        // SAFETY: the C caller gives a place for a CUfunction.
        unsafe { give(function, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    _grid_x: u32,
    _grid_y: u32,
    _grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared_bytes: u32,
    _stream: usize,
    parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> i32 {
    if parameters.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: both kernels take one 64-bit parameter, whose address is the first entry.
    let first = unsafe { parameters.read() }.cast::<u64>();
    if first.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: as above.
    let parameter = unsafe { first.read_unaligned() };
    match function {
        COUNT_STEP => call(|parts| current_slot(parts).and_then(|_| count_step(parts, parameter))),
        SPIN => code_of(spin(parameter)),
        _ => Code::INVALID_HANDLE.0,
    }
}

/// In flight, but not in the way of other threads' calls.
fn spin(milliseconds: u64) -> Outcome {
    let driver = Driver::get()?;
    let _inside = driver.gate.enter();
    std::thread::sleep(Duration::from_millis(milliseconds));
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
}
