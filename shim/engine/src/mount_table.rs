//! The mounts that a process sees: `/proc/PID/mountinfo`.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use baton_fault::{Attempt, Code, Fault, Result};

/// Largest table read, in bytes: some 10,000 mounts.
const TABLE_MAX: u64 = 4 << 20;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// What of its filesystem is mounted.
    pub(crate) root: PathBuf,
    /// Where.
    pub(crate) point: PathBuf,
    /// Whether this mount is read-only.
    pub(crate) read_only: bool,
    /// Kind of filesystem.
    pub(crate) filesystem: String,
}

/// The mounts of process `pid`, in order.
pub(crate) fn of(pid: i32) -> Result<Vec<Mounted>> {
    read(&format!("/proc/{pid}/mountinfo"))
}

/// Our own mounts, also where we have another number than /proc knows us by.
pub(crate) fn ours() -> Result<Vec<Mounted>> {
    read("/proc/self/mountinfo")
}

fn read(path: &str) -> Result<Vec<Mounted>> {
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(TABLE_MAX + 1).read_to_end(&mut text))
        .attempt(|| format!("read {path}"))?;
    let refused = |why: &str| Fault::new(Code::State, format_args!("read {path}"), why);
    if text.len() as u64 > TABLE_MAX {
        return Err(refused("too many mounts"));
    }
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| parse(line).ok_or_else(|| refused("not of the known form"))).collect()
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw` (proc_pid_mountinfo(5)).
fn parse(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|byte| *byte == b' ');
    let root = unescape(fields.nth(3)?);
    let point = unescape(fields.next()?);
    let options = fields.next()?;
    let read_only = options.split(|byte| *byte == b',').any(|option| option == b"ro");
    fields.find(|field| *field == b"-")?;
    let filesystem = String::from_utf8_lossy(fields.next()?).into_owned();
    Some(Mounted { root, point, read_only, filesystem })
}

/// Blanks, tabs, newlines and backslashes are written as `\040` and the like.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after.first_chunk::<3>().and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        match (first, code) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let line = b"36 35 98:0 /mnt1 /a\\040b ro,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        assert_eq!(
            parse(line),
            Some(Mounted { root: "/mnt1".into(), point: "/a b".into(), read_only: true, filesystem: "ext3".into() })
        );
        assert_eq!(parse(b"36 35"), None);
    }

    #[test]
    fn our_own_table_has_a_root() {
        let mounts = of(std::process::id().cast_signed()).expect("own table");
        assert!(mounts.iter().any(|mount| mount.point == std::path::Path::new("/")));
    }
}
