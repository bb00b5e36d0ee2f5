//! Which calls a fault can be ordered for: the deeds on a process, and the functions of the libraries that are installed. An
//! order for another name would never be met, and a test that gave it would wait in vain.

use std::path::Path;

use crate::install::LIBRARIES;

/// The deeds on a process that is saved.
const DEEDS: [&str; 5] = ["Lock", "Checkpoint", "Restore", "Unlock", "State"];

/// Nothing, or why a fault of that call would not be met.
///
/// # Errors
/// A sentence.
pub fn check(root: &Path, call: &str) -> Result<(), String> {
    if DEEDS.contains(&call) {
        return Ok(());
    }
    for (prefix, library) in [("cu", "libcuda.so.1"), ("nvml", "libnvidia-ml.so.1")] {
        // A library has names of other things too.
        if !call.starts_with(prefix) {
            continue;
        }
        let path = root.join(LIBRARIES).join(library);
        let text = std::fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        if has_name(&text, call) {
            return Ok(());
        }
    }
    Err(format!("the driver has no function {call}, and {} are the deeds", DEEDS.join(", ")))
}

/// Whether the text has that name among those that end with a NUL byte.
fn has_name(text: &[u8], name: &str) -> bool {
    text.split(|byte| *byte == 0).any(|word| word == name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_for_what_the_libraries_have() {
        let root = tempfile::tempdir().expect("folder");
        assert!(check(root.path(), "cuInit").expect_err("no library").contains("libcuda.so.1"));
        let folder = root.path().join(LIBRARIES);
        std::fs::create_dir_all(&folder).expect("folder");
        std::fs::write(folder.join("libcuda.so.1"), b"\x7fELF\0cuInit\0cuMemAlloc_v2\0lock\0").expect("written");
        std::fs::write(folder.join("libnvidia-ml.so.1"), b"\x7fELF\0nvmlInit_v2\0").expect("written");
        for known in ["cuInit", "cuMemAlloc_v2", "nvmlInit_v2", "Lock", "State"] {
            assert_eq!(check(root.path(), known), Ok(()), "{known}");
        }
        for unknown in ["cuMemAlloc", "cuIni", "Init", "lock"] {
            assert!(check(root.path(), unknown).expect_err("unknown").contains("no function"), "{unknown}");
        }
    }
}
