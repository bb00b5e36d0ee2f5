//! Where a container's cgroup lies in each hierarchy: one folder per controller in version 1, one for all in version 2.
//! Found while its init lives, and kept, since what it used is asked for after its end, too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_cgroup::{Cgroups, MOUNT};
use baton_fault::{Code, Fault, Result};

/// The folders of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// A folder for each controller.
    V1(BTreeMap<String, PathBuf>),
    /// One for all.
    V2(PathBuf),
}

impl Hierarchy {
    /// The cgroup of process `pid`.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such process.
    pub fn of(pid: u32) -> Result<Hierarchy> {
        let mount = Path::new(MOUNT);
        let unified = mount.join("cgroup.controllers").exists();
        Hierarchy::among(&Cgroups::of(pid)?, mount, unified).ok_or_else(|| {
            Fault::new(Code::System, format!("find the cgroup of process {pid}"), "no cgroup of it is mounted")
                .advise("mount cgroups at /sys/fs/cgroup")
        })
    }

    fn among(cgroups: &Cgroups, mount: &Path, unified: bool) -> Option<Hierarchy> {
        if unified {
            return cgroups.unified().map(|membership| Hierarchy::V2(membership.below(mount)));
        }
        let named = cgroups.memberships().flat_map(|membership| membership.names().map(move |name| (name, membership)));
        let folders: BTreeMap<String, PathBuf> =
            named.filter_map(|(name, membership)| Some((name.to_owned(), membership.folder(name, mount)?))).collect();
        (!folders.is_empty()).then_some(Hierarchy::V1(folders))
    }

    /// The folder of a controller.
    pub fn controller(&self, name: &str) -> Option<&Path> {
        match self {
            Hierarchy::V1(folders) => folders.get(name).map(PathBuf::as_path),
            Hierarchy::V2(folder) => Some(folder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_has_a_folder_for_each_controller_and_version_2_one_for_all() {
        let mount = tempfile::tempdir().expect("folder");
        for name in ["cpu,cpuacct", "memory", "systemd"] {
            std::fs::create_dir(mount.path().join(name)).expect("controller");
        }
        let text = "5:cpu,cpuacct:/default/a\n4:memory:/default/b\n3:pids:/default/c\n2:name=systemd:/d\n0::/e\n";
        let v1 = Hierarchy::among(&Cgroups::parse(text), mount.path(), false).expect("version 1");
        let folder = |name: &str| v1.controller(name).map(Path::to_path_buf);
        assert_eq!(folder("cpu"), Some(mount.path().join("cpu,cpuacct/default/a")));
        assert_eq!(folder("cpuacct"), folder("cpu"));
        assert_eq!(folder("memory"), Some(mount.path().join("memory/default/b")));
        assert_eq!(folder("pids"), None, "it is not mounted");
        let v2 = Hierarchy::among(&Cgroups::parse(text), mount.path(), true).expect("version 2");
        assert_eq!(v2, Hierarchy::V2(mount.path().join("e")));
        assert_eq!(Hierarchy::among(&Cgroups::parse("0::/e\n"), mount.path(), false), None);
    }
}
