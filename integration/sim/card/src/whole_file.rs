//! Reads a file that may be anything: what is no regular file, or is longer than it can rightly be, is refused.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What is in the file.
///
/// # Errors
/// Those of the file system; `InvalidData` when it is no regular file or has more than `longest` bytes.
pub fn read(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    // A pipe without a writer does not keep us waiting.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    if !file.metadata()?.is_file() {
        return refused("it is no regular file");
    }
    let mut text = Vec::new();
    // One byte more tells a file that is too long from one that just fits.
    file.take(longest + 1).read_to_end(&mut text)?;
    if text.len() as u64 > longest { refused("it is too long") } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_sane_length_are_read() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").expect("written");
        assert_eq!(read(&path, 5).expect("it fits"), b"12345");
        assert!(read(&path, 4).expect_err("a byte too many").to_string().contains("too long"));
        for odd in [folder.path(), Path::new("/dev/zero"), Path::new("/proc/self/root")] {
            assert!(read(odd, 5).expect_err("no file").to_string().contains("no regular file"), "{odd:?}");
        }
        assert_eq!(read(Path::new("/nowhere"), 5).expect_err("not there").kind(), io::ErrorKind::NotFound);
    }
}
