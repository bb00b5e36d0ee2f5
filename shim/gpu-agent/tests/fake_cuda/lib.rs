//! A driver library that keeps states in memory and checks what it is given. Process ids choose how it behaves.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks, missing_docs)]

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint};
use std::sync::Mutex;
use std::time::Duration;

const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const ILLEGAL_STATE: c_int = 401;
const NOT_READY: c_int = 600;

/// Below: no CUDA process.
const FIRST: c_int = 100;
/// Every call about it hangs.
const HANGS: c_int = 666;
/// Its lock is never granted.
const BUSY: c_int = 667;
/// Its checkpoint finds no memory, its restore leaves it failed.
const FULL: c_int = 668;
/// A lock of it ends the calling process.
const DEADLY: c_int = 670;

static STATES: Mutex<Option<HashMap<c_int, c_uint>>> = Mutex::new(None);

fn step(pid: c_int, from: c_uint, to: c_uint) -> c_int {
    if pid < FIRST {
        return INVALID_VALUE;
    }
    if pid == HANGS {
        loop {
            std::thread::park_timeout(Duration::from_secs(3600));
        }
    }
    let mut states = STATES.lock().expect("states");
    let state = states.get_or_insert_default().entry(pid).or_default();
    if *state != from {
        return ILLEGAL_STATE;
    }
    *state = to;
    0
}

unsafe fn words(args: *const u64) -> [u64; 8] {
    unsafe { *args.cast::<[u64; 8]>() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(_: c_uint) -> c_int {
    // The environment holds a path and nothing else.
    let names: Vec<_> = std::env::vars().map(|(name, _)| name).collect();
    if names == ["PATH"] { 0 } else { 999 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    unsafe { *version = 13000 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: c_int, name: *mut *const c_char) -> c_int {
    let text = match code {
        0 => c"CUDA_SUCCESS",
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        ILLEGAL_STATE => c"CUDA_ERROR_ILLEGAL_STATE",
        NOT_READY => c"CUDA_ERROR_NOT_READY",
        _ => return INVALID_VALUE,
    };
    unsafe { *name = text.as_ptr() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessGetState(pid: c_int, state: *mut c_uint) -> c_int {
    if pid < FIRST || pid == HANGS {
        return step(pid, 0, 0);
    }
    let mut states = STATES.lock().expect("states");
    unsafe { *state = *states.get_or_insert_default().entry(pid).or_default() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessGetRestoreThreadId(pid: c_int, thread: *mut c_int) -> c_int {
    if pid < FIRST {
        return if pid % 2 == 0 { INVALID_VALUE } else { 3 };
    }
    unsafe { *thread = pid + 1 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessLock(pid: c_int, args: *const u64) -> c_int {
    let words = unsafe { words(args) };
    match pid {
        DEADLY => std::process::abort(),
        BUSY => NOT_READY,
        // A quarter of a second, and nothing else in the structure.
        _ if words == [250, 0, 0, 0, 0, 0, 0, 0] => step(pid, 0, 1),
        _ => INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessCheckpoint(pid: c_int, args: *const u64) -> c_int {
    if pid == FULL {
        return OUT_OF_MEMORY;
    }
    if unsafe { words(args) } == [0; 8] { step(pid, 1, 2) } else { INVALID_VALUE }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessRestore(pid: c_int, args: *const u64) -> c_int {
    let words = unsafe { words(args) };
    if words[2..] != [0; 6] {
        return INVALID_VALUE;
    }
    // Even processes stay, odd ones move from card 11… to card 22….
    let moves = pid % 2 == 1;
    let right = match (moves, words[0], words[1]) {
        (false, 0, 0) => true,
        (true, pairs, 1) if pairs != 0 => {
            let pair = unsafe { *(pairs as *const [[u8; 16]; 2]) };
            pair == [[0x11; 16], [0x22; 16]]
        }
        _ => false,
    };
    if right { step(pid, 2, 1) } else { INVALID_VALUE }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCheckpointProcessUnlock(pid: c_int, args: *const u64) -> c_int {
    if unsafe { words(args) } == [0; 8] { step(pid, 1, 0) } else { INVALID_VALUE }
}
