//! CRIU's list of mounts, out of an image.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let images = tempfile::tempdir_in("/dev/shm").expect("folder");
    // Half of the inputs get a right beginning, so that what follows is reached.
    let magic = [0x5456_4319u32.to_le_bytes(), 0x5556_3928u32.to_le_bytes()].concat();
    let with_magic = data.first().is_some_and(|byte| byte % 2 == 0);
    let text = if with_magic { [&magic, data].concat() } else { data.to_vec() };
    std::fs::write(images.path().join("mountpoints-12.img"), text).expect("write");
    for mount in baton_criu::mounts(images.path()).unwrap_or_default() {
        assert!(mount.mountpoint.starts_with('/'), "{:?}", mount.mountpoint);
    }
});
