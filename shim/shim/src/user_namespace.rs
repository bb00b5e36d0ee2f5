//! User namespaces that carry a mapping of ids to the kernel. Only a process of one thread can make one, which the
//! shim is not, so it runs itself with a verb of its own: that process makes the namespace and holds it until the
//! shim has filled it in and opened it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::sched::{CloneFlags, unshare};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::children;

/// The verb. It is for the shim's own use.
pub const VERB: &str = "hold-user-namespace";
/// What the holder says when the namespace is there; else it says why it is not.
const HELD: &[u8] = b"held";
/// Longest wait for the holder.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most that is read of a holder's reason.
const REASON_MAX: usize = 512;
/// Most ranges of a mapping (user_namespaces(7)).
const RANGES_MAX: usize = 340;

/// How ids of a user namespace are ids outside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    ranges: Vec<[u32; 3]>,
}

impl Mapping {
    /// Reads `INSIDE:OUTSIDE:COUNT[,INSIDE:OUTSIDE:COUNT]…`; nothing, if it is not that.
    pub fn parse(text: &str) -> Option<Mapping> {
        let ranges: Vec<_> = text.split(',').take(RANGES_MAX + 1).map(range).collect::<Option<_>>()?;
        (ranges.len() <= RANGES_MAX).then_some(Mapping { ranges })
    }

    /// As the kernel takes it.
    fn lines(&self) -> String {
        self.ranges.iter().map(|[inside, outside, count]| format!("{inside} {outside} {count}\n")).collect()
    }
}

fn range(text: &str) -> Option<[u32; 3]> {
    let numbers: Vec<u32> = text.split(':').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let range: [u32; 3] = numbers.try_into().ok()?;
    (range[2] > 0).then_some(range)
}

/// What the verb does: makes the namespace, says so, and stays until standard input ends.
pub fn hold() {
    let said = match unshare(CloneFlags::CLONE_NEWUSER) {
        Ok(()) => io::stdout().write_all(HELD),
        Err(err) => io::stdout().write_all(err.desc().as_bytes()),
    };
    // A shim that has gone away wants no answer, and its end of standard input is closed then.
    if said.and_then(|()| io::stdout().flush()).is_ok() {
        let _ = io::stdin().read(&mut [0]);
    }
}

/// A new user namespace with these mappings. It lasts as long as it is open or something uses it.
///
/// # Errors
/// `SYSTEM` when the kernel makes none or refuses a mapping; `DEADLINE`.
pub async fn with(users: &Mapping, groups: &Mapping) -> Result<File> {
    let what = || "make a user namespace for the root filesystem";
    let mut command = Command::new("/proc/self/exe");
    command.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut holder = children::spawn(&mut command)?;
    // The holder ends with its standard input, which is open as long as `holder` is; it is reaped as all children are.
    let stdout = holder.stdout.take().map(std::os::fd::OwnedFd::from);
    let mut reason = vec![0; REASON_MAX];
    let said = match stdout.map(pipe::Receiver::from_owned_fd).transpose().attempt(what)? {
        Some(mut stdout) => tokio::time::timeout(PATIENCE, stdout.read(&mut reason)).await,
        None => Ok(Ok(0)),
    };
    let Ok(read) = said else {
        return Err(Fault::new(Code::Deadline, what(), format!("nothing said in {} s", PATIENCE.as_secs()))
            .advise("see whether the node is overloaded"));
    };
    reason.truncate(read.attempt(what)?);
    if reason != HELD {
        return Err(Fault::new(Code::System, what(), String::from_utf8_lossy(&reason))
            .advise("see user.max_user_namespaces and kernel.unprivileged_userns_clone of `sysctl`"));
    }
    let process = format!("/proc/{}", holder.id());
    for (file, mapping) in [("uid_map", users), ("gid_map", groups)] {
        let lines = mapping.lines();
        fs::write(format!("{process}/{file}"), &lines).attempt(|| format!("map ids by {:?}", lines.trim()))?;
    }
    File::open(format!("{process}/ns/user")).attempt(what)
}

#[cfg(test)]
mod tests {
    use super::Mapping;

    #[test]
    fn mappings_are_read_and_written_as_the_kernel_takes_them() {
        let mapping = |text: &str| Mapping::parse(text).map(|mapping| mapping.lines());
        assert_eq!(mapping("0:100000:65536").as_deref(), Some("0 100000 65536\n"));
        assert_eq!(mapping("0:1000:1,1:4294901760:65535").as_deref(), Some("0 1000 1\n1 4294901760 65535\n"));
        for wrong in ["", "0", "0:1", "0:1:2:3", "0:1:0", "0:-1:2", "0:1:4294967296", "a:1:2", "0:1:2,", "0 1 2"] {
            assert_eq!(mapping(wrong), None, "{wrong:?}");
        }
        assert!(mapping(&vec!["0:1:2"; 340].join(",")).is_some());
        assert_eq!(mapping(&vec!["0:1:2"; 341].join(",")), None);
    }
}
