//! The driver's device nodes: which a container needs, and whether they are what they should be.
//!
//! | node | major | minor |
//! |---|---|---|
//! | `nvidiaN` | 195 | the card's minor number (not its index) |
//! | `nvidiactl`, `nvidia-modeset` | 195 | 255, 254 |
//! | `nvidia-uvm`, `nvidia-uvm-tools` | as `/proc/devices` says | 0, 1 |

use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use baton_fault::{Code, Fault, Result};
use baton_rooted::Rooted;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, fstat, major, minor};
use serde::{Deserialize, Serialize};

use crate::root::DriverRoot;

/// The driver's control node, in a container.
pub const CONTROL: &str = "/dev/nvidiactl";
/// Major of the driver's own nodes, fixed by the kernel's list of devices.
const NVIDIA_MAJOR: u32 = 195;
/// Largest `/proc/devices` that is read, in bytes.
const PROC_DEVICES_MAX: u64 = 64 << 10;

/// A device node as it is on the host and will be in the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNode {
    /// Absolute path in the container.
    pub path: PathBuf,
    /// Where the node lies on the host.
    pub host: PathBuf,
    /// Device major.
    pub major: u32,
    /// Device minor.
    pub minor: u32,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl DeviceNode {
    /// Looks once more whether the node is the character device of the plan.
    ///
    /// # Errors
    /// `NODE_TYPE`, saying what it is.
    pub fn check(&self) -> Result<()> {
        let wrong = |why: String| refuse(&self.host, why);
        let (Some(dir), Some(name)) = (self.host.parent(), self.host.file_name()) else {
            return Err(wrong("it has no file name".into()));
        };
        let dir = Rooted::open(dir).map_err(|err| wrong(err.to_string()))?;
        let stat = look(&dir, Path::new(name)).map_err(|err| wrong(err.to_string()))?;
        is_device(&self.host, &stat, Some(self.major), self.minor)
    }
}

/// A node that a container is to have.
struct Wanted {
    name: String,
    /// `None`: whatever the node has, because `/proc/devices` does not name it.
    major: Option<u32>,
    minor: u32,
    required: bool,
}

/// The nodes for cards with these minor numbers: theirs and the control nodes.
///
/// # Errors
/// `NODE_TYPE` when a required one is missing, or one is not what it should be.
pub fn find(root: &DriverRoot, cards: impl Iterator<Item = u32>) -> Result<Vec<DeviceNode>> {
    let dir = root.device_dir()?;
    let uvm = dynamic_major(root, "nvidia-uvm");
    let wanted = |name: &str, major, minor, required| Wanted { name: name.into(), major, minor, required };
    let mut all: Vec<_> = cards.map(|card| wanted(&format!("nvidia{card}"), Some(NVIDIA_MAJOR), card, true)).collect();
    all.push(wanted("nvidiactl", Some(NVIDIA_MAJOR), 255, true));
    all.push(wanted("nvidia-uvm", uvm, 0, true));
    all.push(wanted("nvidia-uvm-tools", uvm, 1, false));
    all.push(wanted("nvidia-modeset", Some(NVIDIA_MAJOR), 254, false));
    all.iter().filter_map(|node| node.find(&dir).transpose()).collect()
}

impl Wanted {
    fn find(&self, dir: &Rooted) -> Result<Option<DeviceNode>> {
        let host = dir.path().join(&self.name);
        let stat = match look(dir, Path::new(&self.name)) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) if !self.required => return Ok(None),
            Err(errno) => return Err(refuse(&host, errno.desc())),
        };
        is_device(&host, &stat, self.major, self.minor)?;
        Ok(Some(DeviceNode {
            path: Path::new("/dev").join(&self.name),
            host,
            major: major_of(&stat),
            minor: self.minor,
            mode: stat.st_mode & 0o777,
            uid: stat.st_uid,
            gid: stat.st_gid,
        }))
    }
}

fn look(dir: &Rooted, name: &Path) -> nix::Result<FileStat> {
    let handle = dir
        .get(name, OFlag::O_PATH | OFlag::O_NOFOLLOW)
        .map_err(|err| Errno::from_raw(err.raw_os_error().unwrap_or(libc::EIO)))?;
    fstat(handle.as_raw_fd())
}

fn is_device(host: &Path, stat: &FileStat, wanted_major: Option<u32>, wanted_minor: u32) -> Result<()> {
    if stat.st_mode & libc::S_IFMT != libc::S_IFCHR {
        return Err(refuse(host, "it is not a character device"));
    }
    let found = (major_of(stat), minor(stat.st_rdev) as u32);
    let wanted = (wanted_major.unwrap_or(found.0), wanted_minor);
    if found != wanted {
        return Err(refuse(
            host,
            format!("it is device {}:{}, it should be {}:{}", found.0, found.1, wanted.0, wanted.1),
        ));
    }
    Ok(())
}

fn major_of(stat: &FileStat) -> u32 {
    major(stat.st_rdev) as u32
}

fn refuse(host: &Path, why: impl std::fmt::Display) -> Fault {
    Fault::new(Code::NodeType, format!("use the device node {}", host.display()), why)
        .advise("load the driver's modules and make its nodes, for instance with `nvidia-modprobe -u -c=0`")
}

/// The major that the kernel gave a driver: from the driver root's `/proc/devices` where it has one.
fn dynamic_major(root: &DriverRoot, name: &str) -> Option<u32> {
    let own =
        root.rooted().get(Path::new("proc/devices"), OFlag::O_RDONLY | OFlag::O_NONBLOCK).map(std::fs::File::from);
    let file = own.or_else(|_| std::fs::File::open("/proc/devices")).ok()?;
    let mut text = String::new();
    file.take(PROC_DEVICES_MAX).read_to_string(&mut text).ok()?;
    parse_major(&text, name)
}

fn parse_major(devices: &str, name: &str) -> Option<u32> {
    let character = devices.split("Block devices:").next()?;
    character.lines().find_map(|line| match line.trim().split_once(' ') {
        Some((major, found)) if found.trim() == name => major.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeDriver, UVM_MAJOR};

    fn names(nodes: &[DeviceNode]) -> Vec<(String, u32, u32)> {
        nodes.iter().map(|node| (node.path.display().to_string(), node.major, node.minor)).collect()
    }

    #[test]
    fn a_card_comes_with_the_control_nodes() {
        let fake = FakeDriver::new();
        let nodes = find(&fake.root(), [3].into_iter()).expect("nodes");
        assert_eq!(
            names(&nodes),
            [
                ("/dev/nvidia3".into(), 195, 3),
                ("/dev/nvidiactl".into(), 195, 255),
                ("/dev/nvidia-uvm".into(), UVM_MAJOR, 0),
                ("/dev/nvidia-uvm-tools".into(), UVM_MAJOR, 1),
            ]
        );
        assert_eq!((nodes[0].mode, nodes[0].uid, nodes[0].gid), (0o666, 0, 0));
        for node in &nodes {
            node.check().expect("as planned");
        }
    }

    #[test]
    fn a_missing_or_wrong_node_is_named() {
        let fake = FakeDriver::new();
        let refused = |name: &str| {
            let fault = find(&fake.root(), [0].into_iter()).expect_err(name);
            assert_eq!(fault.code, Code::NodeType);
            assert!(fault.to_string().contains(name), "{fault}");
        };
        fake.node("nvidia0", 195, 1);
        refused("nvidia0");
        std::fs::remove_file(fake.path().join("dev/nvidia0")).expect("remove");
        refused("nvidia0");
        std::os::unix::fs::symlink("nvidia3", fake.path().join("dev/nvidia0")).expect("link");
        refused("nvidia0");
        fake.node("nvidia0", 195, 0);
        fake.node("nvidia-uvm", 510, 0);
        refused("nvidia-uvm");
        std::fs::remove_file(fake.path().join("dev/nvidia-uvm")).expect("remove");
        std::fs::write(fake.path().join("dev/nvidia-uvm"), "").expect("file");
        refused("nvidia-uvm");
    }

    #[test]
    fn a_node_that_changed_since_the_plan_is_refused() {
        let fake = FakeDriver::new();
        let nodes = find(&fake.root(), [0].into_iter()).expect("nodes");
        fake.node("nvidia0", 195, 3);
        assert_eq!(nodes[0].check().expect_err("changed").code, Code::NodeType);
    }

    #[test]
    fn majors_are_read_from_the_character_devices() {
        let devices = "Character devices:\n  1 mem\n195 nvidia\n511 nvidia-uvm\n\nBlock devices:\n259 blkext\n";
        assert_eq!(parse_major(devices, "nvidia-uvm"), Some(511));
        assert_eq!(parse_major(devices, "blkext"), None);
        assert_eq!(parse_major("nonsense", "nvidia-uvm"), None);
    }
}
