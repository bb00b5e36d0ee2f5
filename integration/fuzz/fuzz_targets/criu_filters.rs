//! CRIU's seccomp filters, out of an image.
#![no_main]

use baton_criu::{FILTERS, FilterProgram};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let images = tempfile::tempdir_in("/dev/shm").expect("folder");
    // Half of the inputs get a right beginning, so that what follows is reached.
    let magic = [0x5456_4319u32.to_le_bytes(), 0x6441_3049u32.to_le_bytes()].concat();
    let length = u32::try_from(data.len()).expect("short").to_le_bytes();
    let with_magic = data.first().is_some_and(|byte| byte % 2 == 0);
    let text = if with_magic { [&magic[..], &length, data].concat() } else { data.to_vec() };
    std::fs::write(images.path().join(FILTERS), text).expect("write");
    let live = FilterProgram { instructions: b"\x06\0\0\0\x01\0\x05\0".to_vec(), flags: 0 };
    if let Ok(Some(bytes)) = baton_criu::filters_under(images.path(), &live) {
        assert!(bytes.windows(8).any(|instruction| instruction == live.instructions));
    }
});
