//! Which cgroups a process is in: `/proc/PID/cgroup`, read in one place.
//!
//! A line of it reads `ID:CONTROLLERS:PATH` (cgroups(7)). Version 2 has the line without controllers; hierarchies of
//! version 1 have several that share it, or none and a name (`name=systemd`).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Result};

/// Where cgroups are mounted.
pub const MOUNT: &str = "/sys/fs/cgroup";
/// Largest file that is read, in bytes: some twenty paths.
const FILE_MAX: u64 = 256 * 1024;

/// The cgroups of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroups(String);

/// The cgroup of a process in one hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership<'a> {
    joined: &'a str,
    path: &'a str,
}

impl Cgroups {
    /// Those of process `pid`.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such process.
    pub fn of(pid: u32) -> Result<Cgroups> {
        read(&format!("/proc/{pid}/cgroup"))
            .attempt(|| format!("find the cgroup of process {pid}"))
            .map_err(|fault| fault.with_code(Code::NotFound))
    }

    /// Our own, whatever number /proc knows us by.
    ///
    /// # Errors
    /// `FILE` when /proc cannot be read.
    pub fn ours() -> Result<Cgroups> {
        let path = "/proc/self/cgroup";
        read(path).attempt(|| format!("read {path}"))
    }

    /// Those of which this is the text.
    pub fn parse(text: impl Into<String>) -> Cgroups {
        Cgroups(text.into())
    }

    /// One for each hierarchy.
    pub fn memberships(&self) -> impl Iterator<Item = Membership<'_>> {
        self.0.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, joined, path) = (fields.next()?, fields.next()?, fields.next()?);
            Some(Membership { joined, path })
        })
    }

    /// That of version 2.
    pub fn unified(&self) -> Option<Membership<'_>> {
        self.memberships().find(Membership::is_unified)
    }

    /// That in the hierarchy of a controller of version 1, or in the hierarchy of that name.
    pub fn with(&self, controller: &str) -> Option<Membership<'_>> {
        self.memberships().find(|membership| membership.names().any(|name| name == controller))
    }
}

impl<'a> Membership<'a> {
    /// Whether it is that of version 2.
    pub fn is_unified(&self) -> bool {
        self.joined.is_empty()
    }

    /// The controllers of version 1 as their mount is named, joined by commas; none for a hierarchy that has a name only.
    pub fn controllers(&self) -> Option<&'a str> {
        (!self.joined.is_empty() && self.name().is_none()).then_some(self.joined)
    }

    /// The name of a hierarchy without controllers.
    pub fn name(&self) -> Option<&'a str> {
        self.joined.strip_prefix("name=")
    }

    /// Each controller, or the name.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let names = self.name().unwrap_or(self.joined);
        names.split(',').filter(|name| !name.is_empty())
    }

    /// The path below the hierarchy's root, which begins with a slash.
    pub fn path(&self) -> &'a str {
        self.path
    }

    /// The cgroup's folder in a hierarchy that is mounted there.
    pub fn below(&self, mount: &Path) -> PathBuf {
        mount.join(self.path.trim_start_matches('/'))
    }

    /// The cgroup's folder by one of its names, where hierarchies are mounted below `mounts` by the name of one
    /// controller or, joined, by those of all.
    pub fn folder(&self, name: &str, mounts: &Path) -> Option<PathBuf> {
        let mut candidates = [name, self.joined].into_iter().map(|name| mounts.join(name));
        candidates.find(|mount| mount.is_dir()).map(|mount| self.below(&mount))
    }
}

fn read(path: &str) -> std::io::Result<Cgroups> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(Cgroups(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "9:name=systemd:/a:b\n8:pids:/x\n4:cpu,cpuacct:/x/y\nnonsense\n0::/z\n";

    #[test]
    fn each_line_is_a_membership() {
        let groups = Cgroups::parse(TEXT);
        assert_eq!(groups.memberships().count(), 4);
        assert_eq!(groups.unified().map(|one| one.path()), Some("/z"));
        assert_eq!(groups.with("cpuacct").and_then(|one| one.controllers()), Some("cpu,cpuacct"));
        let systemd = groups.with("systemd").expect("a name");
        assert_eq!((systemd.controllers(), systemd.name(), systemd.path()), (None, Some("systemd"), "/a:b"));
        assert_eq!(groups.with("memory"), None);
        assert_eq!(groups.with(""), None);
    }

    #[test]
    fn a_folder_is_found_by_one_name_or_by_all() {
        let mounts = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(mounts.path().join("cpu,cpuacct")).expect("folder");
        let groups = Cgroups::parse(TEXT);
        let folder = |name: &str| groups.with(name).and_then(|one| one.folder(name, mounts.path()));
        assert_eq!(folder("cpuacct"), Some(mounts.path().join("cpu,cpuacct/x/y")));
        assert_eq!(folder("pids"), None, "it is not mounted");
    }

    #[test]
    fn we_are_somewhere_and_nobody_is_nowhere() {
        assert!(Cgroups::ours().expect("ours").memberships().count() > 0);
        assert_eq!(Cgroups::of(u32::MAX).expect_err("nobody").code, Code::NotFound);
    }
}
