//! Device nodes that the library makes itself, as the real one does when `/proc/driver/nvidia/params` says
//! `ModifyDeviceFiles: 1` (`devices.md` §4.3). Container toolkits mask that file.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use baton_sim_wire::{CardUse, DriverRoot};

const CARD_MAJOR: u32 = 195;
const CONTROL_MINOR: u32 = 255;
/// `DeviceFileMode` of the params, as the driver has it: 0666.
const OPEN_TO_ALL: libc::mode_t = 0o666;

/// Makes the nodes of the machine's cards that are missing, where the process may; what fails is left.
pub fn make_missing(root: &DriverRoot, cards: &[CardUse]) {
    let params = fs::read_to_string(root.path().join("proc/driver/nvidia/params")).unwrap_or_default();
    if !may_modify(&params) {
        return;
    }
    let dev = root.path().join("dev");
    for held in cards {
        make(&root.card_node(held.card.minor), CARD_MAJOR, held.card.minor);
    }
    make(&dev.join("nvidiactl"), CARD_MAJOR, CONTROL_MINOR);
    let majors = fs::read_to_string(root.path().join("proc/devices")).unwrap_or_default();
    if let Some(major) = major_of(&majors, "nvidia-uvm") {
        make(&dev.join("nvidia-uvm"), major, 0);
        make(&dev.join("nvidia-uvm-tools"), major, 1);
    }
}

fn may_modify(params: &str) -> bool {
    params
        .lines()
        .any(|line| line.split_once(':').is_some_and(|(key, value)| (key, value.trim()) == ("ModifyDeviceFiles", "1")))
}

/// The major number that `/proc/devices` gives a driver of character devices.
pub fn major_of(devices: &str, driver: &str) -> Option<u32> {
    let lines = devices.lines().take_while(|line| !line.starts_with("Block"));
    lines.filter_map(|line| line.trim().split_once(' ')).find(|(_, name)| *name == driver)?.0.parse().ok()
}

fn make(path: &Path, major: u32, minor: u32) {
    if path.symlink_metadata().is_ok() {
        return;
    }
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return };
    // SAFETY: the name is NUL-terminated and lives through both calls; chmod undoes the umask.
    unsafe {
        if libc::mknod(name.as_ptr(), libc::S_IFCHR | OPEN_TO_ALL, libc::makedev(major, minor)) == 0 {
            libc::chmod(name.as_ptr(), OPEN_TO_ALL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_one_lets_the_library_make_nodes() {
        assert!(may_modify("RmLogonRC: 1\nModifyDeviceFiles: 1\nDeviceFileUID: 0\n"));
        assert!(!may_modify("RmLogonRC: 1\nModifyDeviceFiles: 0\nDeviceFileUID: 1\n"));
        assert!(!may_modify(""));
    }

    #[test]
    fn majors_are_those_of_character_devices() {
        let devices = "Character devices:\n  1 mem\n195 nvidia\n510 nvidia-uvm\n\nBlock devices:\n254 nvidia-caps\n";
        assert_eq!(major_of(devices, "nvidia-uvm"), Some(510));
        assert_eq!(major_of(devices, "nvidia"), Some(195));
        assert_eq!(major_of(devices, "nvidia-caps"), None);
    }
}
