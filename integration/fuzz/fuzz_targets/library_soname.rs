//! The name inside a library of the driver.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut file = tempfile::tempfile_in("/dev/shm").expect("file");
    file.write_all(data).expect("write");
    if let Some(name) = baton_devices::soname::read(&file) {
        assert!(!name.is_empty() && !name.contains('/'), "{name:?}");
    }
});
