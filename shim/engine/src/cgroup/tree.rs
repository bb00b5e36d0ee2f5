//! A group with those below it, as folders.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Result};
use libcgroups::common::CGROUP_PROCS;

/// Adds the processes of a group and of those below it, at most `depth` levels down.
pub(super) fn collect(folder: &Path, depth: usize, found: &mut BTreeSet<i32>) -> Result<()> {
    let text = match fs::read_to_string(folder.join(CGROUP_PROCS)) {
        // Gone meanwhile, or never there.
        Err(err) if err.kind() == ErrorKind::NotFound || err.raw_os_error() == Some(libc::ENODEV) => {
            return Ok(());
        }
        // A threaded cgroup of version 2 lists no processes; its parent does.
        Err(err) if err.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(()),
        text => text.attempt(|| format!("list processes of cgroup {}", folder.display()))?,
    };
    found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
    if depth == 0 {
        return Ok(());
    }
    for child in children(folder) {
        collect(&child, depth - 1, found)?;
    }
    Ok(())
}

/// Removes a group and those below it; the kernel refuses where somebody runs.
pub(super) fn remove(folder: &Path, depth: usize) -> std::io::Result<()> {
    if depth > 0 {
        for child in children(folder) {
            remove(&child, depth - 1)?;
        }
    }
    match fs::remove_dir(folder) {
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_found_in_nested_groups() {
        let dir = tempfile::tempdir().expect("temporary folder");
        fs::write(dir.path().join(CGROUP_PROCS), "12\n0\n7\n").expect("write");
        let nested = dir.path().join("a/b");
        fs::create_dir_all(&nested).expect("make");
        fs::write(dir.path().join("a").join(CGROUP_PROCS), "").expect("write");
        fs::write(nested.join(CGROUP_PROCS), "99\n").expect("write");
        let mut found = BTreeSet::new();
        collect(dir.path(), 32, &mut found).expect("collect");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [7, 12, 99]);
    }

    #[test]
    fn a_missing_group_is_empty_and_removed() {
        let mut found = BTreeSet::new();
        collect(Path::new("/nonexistent/group"), 32, &mut found).expect("collect");
        assert!(found.is_empty());
        remove(Path::new("/nonexistent/group"), 32).expect("remove");
    }
}
