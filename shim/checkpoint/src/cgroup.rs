//! The cgroup of a container, found from its first process: which processes there are, whether they are frozen,
//! and how much memory they may use. cgroup v1 and v2.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_cgroup::{Cgroups, MOUNT};
use baton_fault::{Attempt, Code, Fault, Result};

/// Deepest nesting of cgroups below a container's that is followed.
const DEPTH_MAX: usize = 16;
/// Most processes of a container that Baton handles.
const PROCESSES_MAX: usize = 65_536;

/// Longest wait for the kernel to thaw a cgroup, and how often it is told to.
const THAW_PATIENCE: Duration = Duration::from_secs(30);
const THAW_RETRY: Duration = Duration::from_millis(20);
/// How often the kernel is asked for a lower memory limit.
const LOWER_RETRY: Duration = Duration::from_millis(20);

/// The cgroup of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Folder whose `cgroup.procs` lists the container's processes.
    members: PathBuf,
    /// File that holds the memory limit; absent without a memory controller.
    memory_limit: Option<PathBuf>,
}

impl Cgroup {
    /// A cgroup whose members and limit are in these files.
    #[cfg(test)]
    pub(crate) fn in_folder(members: PathBuf, memory_limit: Option<PathBuf>) -> Cgroup {
        Cgroup { members, memory_limit }
    }

    /// The cgroup that `pid` is in.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such process, `SYSTEM` when no cgroup of it is mounted.
    pub fn of(pid: u32) -> Result<Cgroup> {
        Cgroup::among(&Cgroups::of(pid)?, Path::new(MOUNT)).ok_or_else(|| {
            Fault::new(
                Code::System,
                format!("find the cgroup of process {pid}"),
                "no freezer, pids or unified cgroup is mounted",
            )
            .advise("mount cgroups at /sys/fs/cgroup")
        })
    }

    fn among(cgroups: &Cgroups, mount: &Path) -> Option<Cgroup> {
        let v1 = |controller: &str| cgroups.with(controller)?.folder(controller, mount);
        if let Some(members) = v1("freezer").or_else(|| v1("pids")) {
            let memory_limit = v1("memory").map(|dir| dir.join("memory.limit_in_bytes"));
            return Some(Cgroup { members, memory_limit });
        }
        let members = cgroups.unified()?.below(mount);
        let memory_limit = Some(members.join("memory.max"));
        Some(Cgroup { members, memory_limit })
    }

    /// The pids of all processes of the container, ascending, also of cgroups that it made below its own.
    ///
    /// # Errors
    /// `SYSTEM` when the cgroup cannot be read, or holds more processes than Baton handles.
    pub fn pids(&self) -> Result<Vec<u32>> {
        let mut pids = BTreeSet::new();
        collect(&self.members, 0, &mut pids)?;
        Ok(pids.into_iter().collect())
    }

    /// Thaws the cgroup, whoever froze it, and waits until the kernel says so. One that is gone counts as thawed.
    ///
    /// # Errors
    /// `DEADLINE` when it stays frozen.
    pub async fn thaw(&self) -> Result<()> {
        // v1 and v2: the file, what thaws, what a frozen one reads.
        let files = [("freezer.state", "THAWED", "THAWED"), ("cgroup.freeze", "0", "0")];
        let Some((file, word, thawed)) = files
            .iter()
            .map(|(name, word, thawed)| (self.members.join(name), word, thawed))
            .find(|(file, ..)| file.exists())
        else {
            return Ok(());
        };
        let deadline = Instant::now() + THAW_PATIENCE;
        loop {
            let outcome = std::fs::write(&file, word).and_then(|()| std::fs::read_to_string(&file));
            match outcome {
                Ok(state) if state.trim() == *thawed => return Ok(()),
                Err(_) if !file.exists() => return Ok(()),
                Err(err) if Instant::now() >= deadline => {
                    return Err(Fault::io(format!("thaw {}", file.display()), &err));
                }
                Ok(state) if Instant::now() >= deadline => {
                    return Err(Fault::new(
                        Code::Deadline,
                        format!("thaw {}", file.display()),
                        format!("it stays {}", state.trim()),
                    )
                    .advise("see whether something freezes it again"));
                }
                _ => tokio::time::sleep(THAW_RETRY).await,
            }
        }
    }

    /// The memory limit in bytes; none when there is no limit or no such controller.
    ///
    /// # Errors
    /// `SYSTEM` when the file is unreadable.
    pub fn memory_limit(&self) -> Result<Option<MemoryLimit>> {
        let Some(file) = &self.memory_limit else { return Ok(None) };
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(Fault::io(format!("read {}", file.display()), &err)),
        };
        // v2 says `max`; v1 a number near 2^63 that no machine has.
        Ok(text
            .trim()
            .parse::<u64>()
            .ok()
            .filter(|bytes| *bytes < 1 << 60)
            .map(|bytes| MemoryLimit { file: file.clone(), bytes }))
    }
}

/// A memory limit as it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The file that holds it.
    pub file: PathBuf,
    /// Its value.
    pub bytes: u64,
}

impl MemoryLimit {
    /// Writes the value into the file.
    ///
    /// # Errors
    /// `SYSTEM` when the kernel refuses, as it does below what is in use.
    pub fn set(&self) -> Result<()> {
        std::fs::write(&self.file, self.bytes.to_string())
            .attempt(|| format!("set {} to {}", self.file.display(), self.bytes))
    }

    /// Lowers the limit to this value. What was moved out has been freed by then, but the kernel may need a moment to
    /// take it off the books. A cgroup that has gone with its container is no error.
    ///
    /// # Errors
    /// `SYSTEM` when more is in use after `patience`.
    pub async fn lower(&self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            match self.set() {
                Err(_) if !self.file.exists() => return Ok(()),
                Err(_) if Instant::now() < deadline => tokio::time::sleep(LOWER_RETRY).await,
                outcome => return outcome,
            }
        }
    }
}

fn collect(folder: &Path, depth: usize, pids: &mut BTreeSet<u32>) -> Result<()> {
    let file = folder.join("cgroup.procs");
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        // The cgroup went with its last process.
        Err(err) if err.kind() == std::io::ErrorKind::NotFound || err.raw_os_error() == Some(libc::ENODEV) => {
            return Ok(());
        }
        Err(err) => return Err(Fault::io(format!("read {}", file.display()), &err)),
    };
    pids.extend(text.lines().filter_map(|line| line.trim().parse::<u32>().ok()).filter(|pid| *pid != 0));
    if pids.len() > PROCESSES_MAX || depth > DEPTH_MAX {
        return Err(Fault::new(
            Code::System,
            format!("list the processes in {}", folder.display()),
            format!("more than {PROCESSES_MAX} processes or {DEPTH_MAX} levels"),
        ));
    }
    let entries = std::fs::read_dir(folder).attempt(|| format!("list {}", folder.display()))?;
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), depth + 1, pids)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_takes_the_freezer_and_v2_the_unified_path() {
        let mount = tempfile::tempdir().expect("folder");
        for name in ["freezer", "memory", "cpu,cpuacct"] {
            std::fs::create_dir(mount.path().join(name)).expect("controller");
        }
        let v1 = "9:freezer:/default/job\n4:memory:/default/job\n0::/\n";
        let cgroup = Cgroup::among(&Cgroups::parse(v1), mount.path()).expect("v1");
        assert_eq!(cgroup.members, mount.path().join("freezer/default/job"));
        assert_eq!(cgroup.memory_limit, Some(mount.path().join("memory/default/job/memory.limit_in_bytes")));
        let empty = tempfile::tempdir().expect("folder");
        let cgroup = Cgroup::among(&Cgroups::parse("0::/default/job\n"), empty.path()).expect("v2");
        assert_eq!(cgroup.members, empty.path().join("default/job"));
        assert_eq!(cgroup.memory_limit, Some(empty.path().join("default/job/memory.max")));
    }

    #[test]
    fn processes_of_nested_cgroups_count_once_each() {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::create_dir(folder.path().join("inner")).expect("inner");
        std::fs::write(folder.path().join("cgroup.procs"), "7\n3\n").expect("procs");
        std::fs::write(folder.path().join("inner/cgroup.procs"), "3\n11\n").expect("procs");
        let cgroup = Cgroup { members: folder.path().to_path_buf(), memory_limit: None };
        assert_eq!(cgroup.pids().expect("pids"), [3, 7, 11]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_frozen_cgroup_is_thawed_and_one_that_is_gone_counts_as_thawed() {
        let folder = tempfile::tempdir().expect("folder");
        let cgroup = Cgroup { members: folder.path().to_path_buf(), memory_limit: None };
        cgroup.thaw().await.expect("gone");
        std::fs::write(folder.path().join("freezer.state"), "FROZEN\n").expect("write");
        cgroup.thaw().await.expect("thawed");
        assert_eq!(std::fs::read_to_string(folder.path().join("freezer.state")).expect("read"), "THAWED");
    }

    #[test]
    fn no_limit_reads_as_none() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("memory.max");
        let cgroup = Cgroup { members: folder.path().to_path_buf(), memory_limit: Some(file.clone()) };
        std::fs::write(&file, "max\n").expect("write");
        assert_eq!(cgroup.memory_limit().expect("max"), None);
        std::fs::write(&file, "9223372036854771712\n").expect("write");
        assert_eq!(cgroup.memory_limit().expect("v1's none"), None);
        std::fs::write(&file, "1048576\n").expect("write");
        assert_eq!(cgroup.memory_limit().expect("limit"), Some(MemoryLimit { file, bytes: 1 << 20 }));
    }
}
