//! The archive of CRIU's small images: whatever it holds, nothing but plain files appears, and only in the folder.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let parent = tempfile::tempdir_in("/dev/shm").expect("folder");
    let into = parent.path().join("images");
    std::fs::create_dir(&into).expect("folder");
    let unpacked = baton_image::state::unpack(data, 1 << 20, &into);
    let names = |path| std::fs::read_dir(path).expect("list").map(|entry| entry.expect("entry")).collect::<Vec<_>>();
    assert_eq!(names(parent.path()).len(), 1, "nothing beside the folder");
    for entry in names(&into) {
        assert!(entry.file_type().expect("type").is_file(), "{:?} is no plain file ({unpacked:?})", entry.path());
    }
});
