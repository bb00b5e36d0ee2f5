//! What the standard streams of a container's first process were, in `descriptors.json` of the image folder: a
//! JSON list of three names as `/proc/PID/fd` shows them, in runc's form.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use baton_criu::Inherited;
use baton_fault::{Attempt, Code, Fault, Result};

/// Its name.
pub(crate) const FILE: &str = "descriptors.json";

/// Largest file read, in bytes: three paths.
const FILE_MAX: u64 = 64 * 1024;

/// Most streams that are looked at.
const STREAMS: usize = 3;

/// Writes down the streams of process `pid`.
pub(crate) fn save(pid: i32, images: &Path) -> Result<()> {
    let names: Vec<String> = (0..STREAMS)
        .map(|fd| {
            fs::read_link(format!("/proc/{pid}/fd/{fd}"))
                .map_or_else(|_| "/dev/null".to_owned(), |name| name.to_string_lossy().into_owned())
        })
        .collect();
    let path = images.join(FILE);
    let text = serde_json::json!(names).to_string();
    fs::write(&path, text).attempt(|| format!("write {}", path.display()))
}

/// Which of our own standard streams take the place of pipes that led out of the saved container.
pub(crate) fn inherited(images: &Path) -> Result<Vec<Inherited>> {
    let path = images.join(FILE);
    let mut bytes = Vec::new();
    File::open(&path)
        .and_then(|file| file.take(FILE_MAX).read_to_end(&mut bytes))
        .attempt(|| format!("read {}", path.display()))?;
    let names: Vec<String> = serde_json::from_slice(&bytes).map_err(|err| {
        Fault::new(Code::ImageCorrupt, format_args!("read {}", path.display()), err).advise("use another image")
    })?;
    Ok(pipes(&names))
}

fn pipes(names: &[String]) -> Vec<Inherited> {
    let mut found: Vec<Inherited> = Vec::new();
    for (fd, name) in (0..).zip(names.iter().take(STREAMS)) {
        let number = name.strip_prefix("pipe:[").and_then(|rest| rest.strip_suffix(']'));
        let is_pipe = number.is_some_and(|number| number.parse::<u64>().is_ok());
        if is_pipe && !found.iter().any(|other| other.key == *name) {
            found.push(Inherited { key: name.clone(), fd });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_taken_over_and_nothing_else() {
        let names = ["/dev/null", "pipe:[71]", "pipe:[72]", "pipe:[73]"].map(String::from);
        let found = pipes(&names);
        assert_eq!(
            found.iter().map(|i| (i.key.as_str(), i.fd)).collect::<Vec<_>>(),
            [("pipe:[71]", 1), ("pipe:[72]", 2)]
        );
    }

    #[test]
    fn two_streams_on_one_pipe_are_one() {
        let names = ["/dev/null", "pipe:[71]", "pipe:[71]"].map(String::from);
        assert_eq!(pipes(&names).len(), 1);
    }

    #[test]
    fn a_forged_name_is_no_key() {
        let names = ["pipe:[1]x", "extRootNetNS", "pipe:[a]"].map(String::from);
        assert!(pipes(&names).is_empty());
    }

    #[test]
    fn a_missing_or_broken_file_is_said() {
        let dir = tempfile::tempdir().expect("temporary folder");
        assert_eq!(inherited(dir.path()).expect_err("missing").code, Code::File);
        fs::write(dir.path().join(FILE), "{").expect("write");
        assert_eq!(inherited(dir.path()).expect_err("broken").code, Code::ImageCorrupt);
    }
}
