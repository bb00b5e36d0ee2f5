//! What a library of an older driver does not have yet.

/// The first branch with the checkpoint API (CUDA 12.8: `cuda-checkpoint.md` §1.5).
const WITH_CHECKPOINT_API: u32 = 570;
/// How the functions of that API begin.
const CHECKPOINT_API: &[u8] = b"cuCheckpoint";

/// Takes out of a `libcuda.so` what the driver of that version does not have: names are overwritten, so that the loader,
/// which looks for the hash of a name and compares, does not find them.
pub fn take_away(library: &mut [u8], driver: &str) {
    let branch: u32 = driver.split('.').next().and_then(|first| first.parse().ok()).unwrap_or(0);
    if branch >= WITH_CHECKPOINT_API {
        return;
    }
    let mut at = 0;
    while let Some(found) = library[at..].windows(CHECKPOINT_API.len()).position(|name| name == CHECKPOINT_API) {
        at += found;
        library[at..at + 2].copy_from_slice(b"__");
        at += CHECKPOINT_API.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_driver_has_no_checkpoint_api() {
        let whole = *b"\0cuInit\0cuCheckpointProcessLock\0cuCheckpointProcessUnlock\0cuCheck";
        let mut old = whole;
        take_away(&mut old, "565.57.01");
        assert_eq!(&old, b"\0cuInit\0__CheckpointProcessLock\0__CheckpointProcessUnlock\0cuCheck");
        let mut new = whole;
        take_away(&mut new, "570.86.10");
        assert_eq!(new, whole);
    }
}
