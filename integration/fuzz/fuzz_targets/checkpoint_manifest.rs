//! The small manifest of a checkpoint image: what parses is printed and parsed again as the same.
#![no_main]

use baton_image::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(manifest) = Manifest::parse(data) {
        let bytes = manifest.to_bytes().expect("what parsed can be written");
        assert_eq!(Manifest::parse(&bytes).expect("what was written parses"), manifest);
    }
});
