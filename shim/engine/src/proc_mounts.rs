//! Nothing is mounted over files of a container's /proc: who could do that would be asked no questions by AppArmor and
//! SELinux, whose profiles are set there (CVE-2019-16884). libcontainer looks only at mounts of proc and sysfs; runc
//! looks at all.

use std::path::{Component, Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use baton_rooted::Rooted;
use libcontainer::rootfs::Mount;

use crate::bundle::Bundle;
use crate::container::chain;

/// Refuses mounts below /proc but those that runc allows, as lxcfs has them, and anything on /proc but a procfs.
///
/// # Errors
/// `BUNDLE`, naming the mount.
pub(crate) fn check(bundle: &Bundle) -> Result<()> {
    let checks = Mount::new();
    let root = Rooted::open(&bundle.rootfs).attempt(|| format!("open root filesystem {}", bundle.rootfs.display()))?;
    for mount in bundle.spec.mounts().iter().flatten() {
        let mut there = mount.clone();
        // libcontainer reads the path as it is written.
        there.set_destination(led_to(&root, mount.destination()));
        checks.check_proc_mount(&bundle.rootfs, &there).map_err(|err| {
            let what = format!("mount {}", mount.destination().display());
            Fault::new(Code::Bundle, what, chain(&err)).advise("mount it elsewhere")
        })?;
    }
    Ok(())
}

/// Where a path leads inside the root, by the links that there are; what is missing of it has none.
fn led_to(root: &Rooted, path: &Path) -> PathBuf {
    let mut there = path.ancestors().filter_map(|part| Some((part, root.real_path(part).ok()?)));
    let Some((part, real)) = there.next() else { return path.to_owned() };
    let inside = real.strip_prefix(root.path()).unwrap_or(&real);
    let mut led = Path::new("/").join(inside);
    for step in path.strip_prefix(part).unwrap_or(Path::new("")).components() {
        match step {
            Component::ParentDir => drop(led.pop()),
            step => led.push(step),
        }
    }
    led
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(destination: &str, source: &str, kind: &str) -> Result<()> {
        let dir = tempfile::tempdir().expect("temporary folder");
        let rootfs = dir.path().join("rootfs");
        std::fs::create_dir_all(rootfs.join("proc/self")).expect("folder");
        std::os::unix::fs::symlink("/proc/self", rootfs.join("link")).expect("link");
        let config = json!({
            "ociVersion": "1.2.0", "root": {"path": "rootfs"}, "linux": {}, "process": {"args": ["x"], "cwd": "/", "user": {"uid": 0, "gid": 0}},
            "mounts": [{"destination": destination, "source": source, "type": kind, "options": ["rbind"]}],
        });
        std::fs::write(dir.path().join("config.json"), config.to_string()).expect("write");
        check(&Bundle::open(dir.path()).expect("a bundle"))
    }

    #[test]
    fn what_lies_in_proc_stays_the_kernels() {
        for destination in ["/proc/self/attr", "/proc/sys", "/proc", "/link/attr", "/usr/../proc/1"] {
            let fault = checked(destination, "/tmp", "bind").expect_err(destination);
            assert!(fault.code == Code::Bundle && fault.to_string().contains(destination), "{fault}");
        }
        for (destination, source, kind) in [
            ("/proc", "proc", "proc"),
            ("/proc", "/proc", "bind"),
            ("/proc/cpuinfo", "/tmp", "bind"),
            ("/processes", "/tmp", "bind"),
            ("/sys", "sysfs", "sysfs"),
        ] {
            checked(destination, source, kind).expect(destination);
        }
    }
}
