//! CRIU's log: what really went wrong.
//!
//! A line of it reads `(00.012345) Error (criu/cr-dump.c:123): text`. The answer's own error text is often the
//! first such line of the run, which is harmless on hosts without CAP_SYS_RESOURCE, so the log itself is read.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How much of the end of a log is read: errors stand at the end, and a log of level 4 can be hundreds of MiB.
const TAIL_MAX: u64 = 1 << 20;

/// Errors that are named in a fault.
const ERRORS_NAMED: usize = 3;

/// Errors that say nothing of the cause: the first is harmless, the others only tell that it failed.
const EMPTY_WORDS: &[&str] =
    &["Can't setup RLIMIT_NOFILE", "Dumping FAILED", "Restoring FAILED", "Pre-dumping FAILED", "Killed by"];

/// What the log of a failed run says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The last real errors, newest last, as one line; empty when there are none.
    pub(crate) text: String,
    /// Whether room ran out.
    pub(crate) no_space: bool,
    /// The option without which CRIU refuses.
    pub(crate) option: Option<&'static str>,
}

/// What is refused unless it is asked for: options that CRIU names in its errors, which the engine has by the same names.
const ON_REQUEST: &[&str] = &["--file-locks", "--tcp-established", "--ext-unix-sk", "--shell-job"];

/// Reads the end of the log at `path`; a missing log has no cause in it.
pub(crate) fn cause(path: &Path) -> Cause {
    tail(path).map(|text| parse(&text)).unwrap_or_default()
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_MAX)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn parse(log: &str) -> Cause {
    let mut errors: Vec<&str> = Vec::new();
    for text in log.lines().filter_map(error_text) {
        if !EMPTY_WORDS.iter().any(|words| text.contains(words)) && errors.last() != Some(&text) {
            errors.push(text);
        }
    }
    let no_space = errors.iter().any(|text| text.contains("No space left on device"));
    let option = ON_REQUEST.iter().copied().find(|option| errors.iter().any(|text| text.contains(option)));
    let first_named = errors.len().saturating_sub(ERRORS_NAMED);
    Cause { text: errors[first_named..].join(" | "), no_space, option }
}

/// The text after `Error (file:line): `.
fn error_text(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("Error (")?;
    let (_, text) = rest.split_once("): ")?;
    Some(text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED_DUMP: &str = "\
(00.000112) Error (criu/util.c:1519): Can't setup RLIMIT_NOFILE for self: Operation not permitted
(00.004513) Running pre-dump scripts
(00.101245) Error (criu/files-ext.c:98): Can't dump file 9 of that type [20600] (chr 195:0 /dev/nvidia0)
(00.101301) Error (criu/cr-dump.c:1676): Dump files (pid: 812) failed with -1
(00.101911) Error (criu/cr-dump.c:2128): Dumping FAILED.
";

    #[test]
    fn names_the_real_errors_and_not_the_frame_around_them() {
        let cause = parse(FAILED_DUMP);
        assert_eq!(
            cause.text,
            "Can't dump file 9 of that type [20600] (chr 195:0 /dev/nvidia0) | Dump files (pid: 812) failed with -1"
        );
        assert!(!cause.no_space);
    }

    #[test]
    fn a_full_disk_is_noticed() {
        let cause = parse("(00.1) Error (criu/image.c:1): Unable to write: No space left on device\n");
        assert!(cause.no_space);
    }

    #[test]
    fn the_option_that_it_lacks_is_known() {
        let said = "Some file locks are hold by dumping tasks! You can try --file-locks to dump them.";
        let cause =
            parse(&format!("(00.1) Error (criu/file-lock.c:110): {said}\n(00.2) Error (a.c:1): Dumping FAILED.\n"));
        assert_eq!((cause.text.as_str(), cause.option), (said, Some("--file-locks")));
    }

    #[test]
    fn only_the_last_errors_of_many_are_named() {
        let log: String = (0..100).map(|n| format!("(00.{n}) Error (a.c:1): e{n}\n")).collect();
        assert_eq!(parse(&log).text, "e97 | e98 | e99");
    }

    #[test]
    fn a_missing_log_and_a_log_without_errors_have_no_cause() {
        assert_eq!(cause(Path::new("/nonexistent/dump.log")), Cause::default());
        assert_eq!(parse("(00.1) all is well\n"), Cause::default());
    }

    #[test]
    fn a_huge_log_is_read_from_its_end() {
        let mut file = tempfile::NamedTempFile::new().expect("temporary file");
        use std::io::Write;
        for _ in 0..(TAIL_MAX / 16 + 10) {
            file.write_all(b"(00.1) fill fil\n").expect("write");
        }
        file.write_all(b"(00.2) Error (a.c:1): the end\n").expect("write");
        assert_eq!(cause(file.path()).text, "the end");
        assert!(tail(file.path()).expect("read").len() as u64 <= TAIL_MAX);
    }
}
