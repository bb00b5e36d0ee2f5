//! The cgroups of a cell: one per hierarchy of the machine, below the one that its starter is in.

use std::fs;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Result};

use crate::house;

/// A cgroup hierarchy mounted on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// `memory`, `cpu,cpuacct`, `name=systemd`; empty for cgroup v2.
    pub controllers: String,
}

impl Hierarchy {
    /// Whether this is cgroup v2.
    pub fn is_v2(&self) -> bool {
        self.controllers.is_empty()
    }
}

/// The hierarchies mounted on this machine, each once.
pub fn hierarchies() -> Result<Vec<Hierarchy>> {
    let text = fs::read_to_string("/proc/self/mountinfo").attempt(|| "read /proc/self/mountinfo")?;
    Ok(parse_mounts(&text))
}

fn parse_mounts(mountinfo: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (Some(mount), mut right) = (left.split(' ').nth(4), right.split(' ')) else { continue };
        let controllers = match (right.next(), right.nth(1)) {
            (Some("cgroup2"), _) => String::new(),
            (Some("cgroup"), Some(options)) => {
                let own = |option: &&str| !matches!(*option, "rw" | "ro" | "xattr" | "relatime");
                options.split(',').filter(own).collect::<Vec<_>>().join(",")
            }
            _ => continue,
        };
        if !found.iter().any(|known| known.controllers == controllers) {
            found.push(Hierarchy { mount: PathBuf::from(mount), controllers });
        }
    }
    found
}

/// Where the cgroups of the cell `name` lie. In cgroup v1 below the starter's own, so that its limits hold for
/// the cell too; in cgroup v2 with controllers at the top, since a cgroup with processes can have none below it.
pub fn places(name: &str) -> Result<Vec<PathBuf>> {
    let own = fs::read_to_string("/proc/self/cgroup").attempt(|| "read /proc/self/cgroup")?;
    let all = hierarchies()?;
    let pure = all.iter().all(Hierarchy::is_v2);
    let leaf = if name == house::HUB { "baton-hub".to_owned() } else { format!("baton-node-{name}") };
    let place = |hierarchy: &Hierarchy| {
        let below = if pure { "/" } else { own_path(&own, &hierarchy.controllers) };
        hierarchy.mount.join(below.trim_start_matches('/')).join(&leaf)
    };
    Ok(all.iter().map(place).collect())
}

/// The path in `/proc/self/cgroup` for a hierarchy.
fn own_path<'a>(own: &'a str, controllers: &str) -> &'a str {
    own.lines()
        .filter_map(|line| line.splitn(3, ':').skip(1).collect::<Vec<_>>().try_into().ok())
        .find_map(|[names, path]: [&str; 2]| (names == controllers).then_some(path))
        .unwrap_or("/")
}

/// Makes the cgroups; a cpuset gets its parent's processors and memory nodes, without which nothing can join it.
pub fn make(places: &[PathBuf]) -> Result<()> {
    for place in places {
        fs::create_dir_all(place).attempt(|| format!("make cgroup {}", place.display()))?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let from = place.with_file_name(file);
            let to = place.join(file);
            if let Ok(value) = fs::read_to_string(&from)
                && !value.trim().is_empty()
                && to.exists()
            {
                fs::write(&to, value.trim()).attempt(|| format!("write {}", to.display()))?;
            }
        }
    }
    Ok(())
}

/// Puts the calling process into the cgroups.
pub fn join(places: &[PathBuf]) -> Result<()> {
    for place in places {
        // In cgroup v2 the first process has moved to a leaf, to make room for controllers beside it.
        let leaf = place.join("init");
        let place = if leaf.is_dir() { &leaf } else { place };
        let procs = place.join("cgroup.procs");
        fs::write(&procs, "0").attempt(|| format!("join cgroup {}", place.display()))?;
    }
    Ok(())
}

/// Below a cgroup v2 with controllers: moves the calling process into a leaf and hands the controllers down, as
/// a container engine in a container must. `top` is the cell's own cgroup as it sees it.
pub fn make_room(top: &Path) -> Result<()> {
    let offered = fs::read_to_string(top.join("cgroup.controllers")).unwrap_or_default();
    if offered.trim().is_empty() {
        return Ok(());
    }
    let leaf = top.join("init");
    fs::create_dir_all(&leaf).attempt(|| format!("make cgroup {}", leaf.display()))?;
    fs::write(leaf.join("cgroup.procs"), "0").attempt(|| format!("join cgroup {}", leaf.display()))?;
    for controller in offered.split_ascii_whitespace() {
        // One that cannot be handed down is missing in the node, as it would be on a machine without it.
        let _ = fs::write(top.join("cgroup.subtree_control"), format!("+{controller}"));
    }
    Ok(())
}

/// The processes in the cgroups and below; frozen ones are thawed, since they could not die.
pub fn processes(places: &[PathBuf]) -> Vec<i32> {
    let mut pids = Vec::new();
    for place in places {
        visit(place, &mut |dir| {
            let state = dir.join("freezer.state");
            if fs::read_to_string(&state).is_ok_and(|text| text.trim() != "THAWED") {
                let _ = fs::write(&state, "THAWED");
            }
            let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
        });
    }
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Removes the cgroups and those below; true when all are gone.
pub fn remove(places: &[PathBuf]) -> bool {
    for place in places {
        visit(place, &mut |dir| {
            let _ = fs::remove_dir(dir);
        });
    }
    places.iter().all(|place| !place.exists())
}

/// Calls `act` for every cgroup below `dir`, deepest first, and for `dir`.
fn visit(dir: &Path, act: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            visit(&entry.path(), act);
        }
    }
    if dir.is_dir() {
        act(dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 0:20 / /proc rw - proc proc rw
30 25 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
33 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
34 30 0:28 / /mnt/again rw,relatime - cgroup cgroup rw,name=systemd";

    #[test]
    fn hierarchies_are_read_once_each() {
        let found = parse_mounts(MOUNTS);
        let names: Vec<_> = found.iter().map(|h| h.controllers.as_str()).collect();
        assert_eq!(names, ["cpu,cpuacct", "name=systemd", ""]);
        assert_eq!(found[0].mount, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
    }

    #[test]
    fn a_process_finds_its_own_cgroup() {
        let own = "4:memory:/box/a:b\n3:name=systemd:/\n0::/user";
        assert_eq!(own_path(own, "memory"), "/box/a:b");
        assert_eq!(own_path(own, ""), "/user");
        assert_eq!(own_path(own, "pids"), "/");
    }
}
