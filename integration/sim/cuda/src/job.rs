//! The file of a launch job: what processes that share memory tell each other across a checkpoint.
//!
//! The launcher makes a file of no size and names it in `CUDA_CHECKPOINT_JOB_FILE`. Here it holds, one below the other, for
//! each shared allocation whose owner has been restored:
//!
//! ```text
//! token: u64 | key: u64      little endian; the last of a token counts
//! ```
//!
//! Deeds on processes of one job must come one after the other: while one is being done the file is locked.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use crate::codes::{Code, Outcome};

const ENTRY: usize = 16;

/// More entries than processes of a job can hold allocations are not read.
const MOST_ENTRIES: usize = 1 << 20;

/// The turn of one process of a job.
#[derive(Debug)]
pub struct Turn<'f>(&'f File);

impl Turn<'_> {
    /// Takes the turn, if no other process of the job has it.
    pub fn take(file: &File) -> Outcome<Turn<'_>> {
        // SAFETY: plain numbers and an open descriptor.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(Code::ILLEGAL_STATE);
        }
        Ok(Turn(file))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // SAFETY: plain numbers and an open descriptor.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Tells the others what an allocation is opened by from now on.
pub fn tell(file: &File, token: u64, key: u64) -> Outcome {
    let end = file.metadata().map_err(|_| Code::OPERATING_SYSTEM)?.len();
    let mut entry = [0u8; ENTRY];
    entry[..8].copy_from_slice(&token.to_le_bytes());
    entry[8..].copy_from_slice(&key.to_le_bytes());
    file.write_all_at(&entry, end / ENTRY as u64 * ENTRY as u64).map_err(|_| Code::OPERATING_SYSTEM)
}

/// What an allocation is opened by now; `None` before its owner has been restored.
pub fn key_of(file: &File, token: u64) -> Outcome<Option<u64>> {
    let length = file.metadata().map_err(|_| Code::OPERATING_SYSTEM)?.len() as usize;
    let entries = (length / ENTRY).min(MOST_ENTRIES);
    let mut bytes = vec![0u8; entries * ENTRY];
    file.read_exact_at(&mut bytes, 0).map_err(|_| Code::OPERATING_SYSTEM)?;
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let pairs = bytes.chunks_exact(ENTRY).map(|entry| (word(&entry[..8]), word(&entry[8..])));
    Ok(pairs.rev().find(|(known, _)| *known == token).map(|(_, key)| key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;

    fn file() -> File {
        // SAFETY: the name is NUL-terminated; the descriptor is new and nobody else's.
        unsafe { File::from_raw_fd(libc::memfd_create(c"job".as_ptr(), libc::MFD_CLOEXEC)) }
    }

    #[test]
    fn the_last_word_about_an_allocation_counts() {
        let file = file();
        assert_eq!(key_of(&file, 1), Ok(None));
        for (token, key) in [(1, 10), (2, 20), (1, 11)] {
            tell(&file, token, key).expect("memory");
        }
        assert_eq!([key_of(&file, 1), key_of(&file, 2), key_of(&file, 3)], [Ok(Some(11)), Ok(Some(20)), Ok(None)]);
    }

    #[test]
    fn one_process_of_a_job_has_its_turn() {
        let first = file();
        let path = format!("/proc/self/fd/{}", first.as_raw_fd());
        let second = File::options().read(true).write(true).open(path).expect("the same file");
        let turn = Turn::take(&first).expect("nobody has it");
        assert!(Turn::take(&second).is_err());
        drop(turn);
        assert!(Turn::take(&second).is_ok());
    }
}
