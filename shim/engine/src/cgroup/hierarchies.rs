//! The hierarchies of cgroup version 1: which controllers there are, and where they are mounted.
//!
//! Found by the names of /proc/self/cgroup below /sys/fs/cgroup, where every init mounts them, and by the mount table
//! only where one is not there: a node has hundreds of mounts, and the kernel writes out each line anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use baton_cgroup::Cgroups;
use baton_fault::{Attempt, Code, Fault, Result};
use libcgroups::common::DEFAULT_CGROUP_ROOT;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, statfs};

/// The folder of each controller; controllers that share a hierarchy share it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hierarchies(BTreeMap<String, PathBuf>);

impl Hierarchies {
    /// Those of this machine.
    ///
    /// # Errors
    /// `FILE` when /proc cannot be read, `SYSTEM` when no controller is mounted.
    pub(crate) fn here() -> Result<Hierarchies> {
        let groups = Cgroups::ours()?;
        let root = Path::new(DEFAULT_CGROUP_ROOT);
        let found = named(&groups, |name| {
            let mount = root.join(name);
            statfs(&mount).is_ok_and(|fs| fs.filesystem_type() == CGROUP_SUPER_MAGIC).then_some(mount)
        });
        let found = match found {
            Some(found) => found,
            None => in_mount_table(&groups)?,
        };
        if found.0.is_empty() {
            return Err(Fault::new(Code::System, "find the cgroup controllers", "none is mounted")
                .advise("mount the cgroup filesystems at /sys/fs/cgroup"));
        }
        Ok(found)
    }

    /// The folder of one controller's hierarchy.
    pub(crate) fn of(&self, controller: &str) -> Option<&Path> {
        self.0.get(controller).map(PathBuf::as_path)
    }

    /// Every hierarchy once.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = &Path> {
        let once: std::collections::BTreeSet<_> = self.0.values().map(PathBuf::as_path).collect();
        once.into_iter()
    }
}

/// All hierarchies by `find`, or none when it does not know one of them.
fn named(groups: &Cgroups, find: impl Fn(&str) -> Option<PathBuf>) -> Option<Hierarchies> {
    let mut found = BTreeMap::new();
    for names in groups.memberships().filter_map(|membership| membership.controllers()) {
        let mount = find(names)?;
        found.extend(names.split(',').map(|name| (name.to_owned(), mount.clone())));
    }
    Some(Hierarchies(found))
}

fn in_mount_table(groups: &Cgroups) -> Result<Hierarchies> {
    let path = "/proc/self/mountinfo";
    let table = fs::read_to_string(path).attempt(|| format!("read {path}"))?;
    let mut found = BTreeMap::new();
    for names in groups.memberships().filter_map(|membership| membership.controllers()) {
        for name in names.split(',') {
            // One that is not mounted anywhere is as good as none.
            if let Some(mount) = mount_of(&table, name) {
                found.insert(name.to_owned(), mount);
            }
        }
    }
    Ok(Hierarchies(found))
}

/// The mount point of a controller in a mount table: `ID PARENT DEV ROOT POINT OPTIONS … - TYPE SOURCE OPTIONS`.
fn mount_of(table: &str, controller: &str) -> Option<PathBuf> {
    table.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut fields = filesystem.split(' ');
        if fields.next()? != "cgroup" || !fields.nth(1)?.split(',').any(|option| option == controller) {
            return None;
        }
        mount.split(' ').nth(4).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &str = "9:name=systemd:/a\n8:pids:/x\n4:cpu,cpuacct:/x\n0::/y\n";

    #[test]
    fn controllers_that_share_a_hierarchy_share_a_folder() {
        let found = named(&Cgroups::parse(GROUPS), |name| Some(Path::new("/c").join(name))).expect("all known");
        assert_eq!(found.of("cpu"), Some(Path::new("/c/cpu,cpuacct")));
        assert_eq!(found.of("cpuacct"), Some(Path::new("/c/cpu,cpuacct")));
        assert_eq!(found.of("pids"), Some(Path::new("/c/pids")));
        assert_eq!((found.of("systemd"), found.of("memory")), (None, None));
        assert_eq!(found.mounts().count(), 2);
        assert_eq!(named(&Cgroups::parse(GROUPS), |name| (name == "pids").then(PathBuf::new)), None);
    }

    #[test]
    fn a_mount_table_says_where_a_controller_is() {
        let table = "30 24 0:26 / /sys/fs/cgroup/cpu rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                     31 24 0:27 / /sys/fs/cgroup/pids rw - cgroup none rw,pids\n32 24 0:28 / /x rw - tmpfs pids rw\n";
        assert_eq!(mount_of(table, "cpuacct"), Some(PathBuf::from("/sys/fs/cgroup/cpu")));
        assert_eq!(mount_of(table, "pids"), Some(PathBuf::from("/sys/fs/cgroup/pids")));
        assert_eq!(mount_of(table, "memory"), None);
    }
}
