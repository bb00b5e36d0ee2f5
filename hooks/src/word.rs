//! What a hook that failed has to say. Its standard error is the container's, which the engine does not read; so it
//! leaves its fault in the bundle, and the engine tells it in place of "a hook failed".

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use baton_fault::Fault;

/// Name of the file in the bundle.
const FILE: &str = "baton-hook-fault";
/// Largest file that is read, in bytes: a fault is one line of three bounded parts.
const FILE_MAX: u64 = 16 * 1024;

/// Leaves the fault in the bundle. It has also been printed, so a failure here is no second one.
pub fn leave(bundle: &Path, fault: &Fault) {
    let _ = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(bundle.join(FILE))
        .and_then(|mut file| file.write_all(fault.to_string().as_bytes()));
}

/// Takes the fault that a hook has left in the bundle, if one has.
pub fn fault(bundle: &Path) -> Option<Fault> {
    let path = bundle.join(FILE);
    let mut text = String::new();
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(&path).ok()?;
    file.take(FILE_MAX).read_to_string(&mut text).ok()?;
    let _ = std::fs::remove_file(path);
    Fault::parse(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_fault::Code;

    #[test]
    fn a_fault_is_left_and_taken_once() {
        let bundle = tempfile::tempdir().expect("folder");
        assert_eq!(fault(bundle.path()), None);
        let said = Fault::new(Code::Bundle, "link libcuda.so.1", "a file is there").advise("use another image");
        leave(bundle.path(), &said);
        assert_eq!(fault(bundle.path()), Some(said));
        assert_eq!(fault(bundle.path()), None);
    }
}
