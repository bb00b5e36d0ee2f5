//! Where the driver lies: found from where the library itself was loaded from.

use std::ffi::{CStr, OsStr, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The driver version that is installed when none is asked for.
pub const DEFAULT_DRIVER: &str = "580.95.05";

/// The firmware file that is the hardware's socket. Container toolkits mount `gsp*.bin` into every GPU container.
pub const SOCKET_FILE: &str = "gsp_ga10x.bin";

/// The description of the hardware, at the top of the driver root, outside of what containers see.
pub const HARDWARE_FILE: &str = "hardware.json";

/// A driver root: `dev`, `proc`, `usr/lib` and `lib/firmware` of one driver, `/` inside a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverRoot {
    path: PathBuf,
    version: String,
}

impl DriverRoot {
    /// A root at a known place.
    pub fn at(path: impl Into<PathBuf>, version: impl Into<String>) -> DriverRoot {
        DriverRoot { path: path.into(), version: version.into() }
    }

    /// The root that the library holding `symbol` was loaded from: the nearest folder above it that has the driver's
    /// firmware.
    pub fn of_library(symbol: *const c_void) -> Option<DriverRoot> {
        let library = fs::canonicalize(library_path(symbol)?).ok()?;
        let version = version_in_name(&library);
        // An image whose /lib is a link to /usr/lib has the firmware below /usr too; the devices are below the root only.
        library.ancestors().skip(1).filter(|folder| folder.join("dev/nvidiactl").exists()).find_map(|folder| {
            let firmware = folder.join("lib/firmware/nvidia");
            let found = match &version {
                Some(version) if firmware.join(version).is_dir() => Some(version.clone()),
                _ => version_with_socket(&firmware),
            };
            found.map(|version| DriverRoot::at(folder, version))
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The driver version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The hardware's socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("lib/firmware/nvidia").join(&self.version).join(SOCKET_FILE)
    }

    /// The node of a card.
    pub fn card_node(&self, minor: u32) -> PathBuf {
        self.path.join("dev").join(format!("nvidia{minor}"))
    }

    /// Whether this process may use the control node.
    pub fn control_is_open_to_us(&self) -> bool {
        node_is_open_to_us(&self.path.join("dev/nvidiactl"), 255)
    }

    /// Whether this process may use the card with that minor number.
    pub fn card_is_open_to_us(&self, minor: u32) -> bool {
        node_is_open_to_us(&self.card_node(minor), minor)
    }
}

/// Whether this process may open the node of a card, or the control node, for reading and writing.
fn node_is_open_to_us(path: &Path, minor: u32) -> bool {
    device_opens(path, (195, minor), true)
}

/// Whether this process may open the node, to write to it too if `write`: it must be the character device with that major
/// and minor number. No driver stands behind it, so an allowed `open` ends in `ENXIO`; one that the device cgroup forbids
/// ends in `EPERM`.
pub fn device_opens(path: &Path, (major, minor): (u32, u32), write: bool) -> bool {
    let Ok(facts) = fs::metadata(path) else { return false };
    if !facts.file_type().is_char_device() || facts.rdev() != libc::makedev(major, minor) {
        return false;
    }
    let mut options = fs::OpenOptions::new();
    match options.read(true).write(write).custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK).open(path) {
        Ok(_) => true,
        Err(error) => error.raw_os_error() == Some(libc::ENXIO),
    }
}

fn library_path(symbol: *const c_void) -> Option<PathBuf> {
    // SAFETY: an all-zero Dl_info is valid; dladdr only writes it.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr takes any address and fills info when it knows it.
    let known = unsafe { libc::dladdr(symbol, &raw mut info) };
    if known == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gave a NUL-terminated name that lives as long as the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// `libcuda.so.580.95.05` → `580.95.05`.
fn version_in_name(library: &Path) -> Option<String> {
    let name = library.file_name()?.to_str()?;
    let (_, version) = name.split_once(".so.")?;
    (version.contains('.') && version.bytes().all(|b| b.is_ascii_digit() || b == b'.')).then(|| version.to_owned())
}

fn version_with_socket(firmware: &Path) -> Option<String> {
    let mut versions: Vec<String> = fs::read_dir(firmware)
        .ok()?
        .flatten()
        .filter(|entry| entry.path().join(SOCKET_FILE).exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    versions.sort();
    versions.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_file_name() {
        assert_eq!(version_in_name(Path::new("/x/libcuda.so.580.95.05")).as_deref(), Some("580.95.05"));
        assert_eq!(version_in_name(Path::new("/x/libcuda.so.1")), None);
        assert_eq!(version_in_name(Path::new("/x/libcuda.so")), None);
    }

    #[test]
    fn a_file_that_is_no_node_is_not_open() {
        assert!(!node_is_open_to_us(Path::new("/proc/self/exe"), 0));
        assert!(!node_is_open_to_us(Path::new("/dev/null"), 0));
        assert!(!node_is_open_to_us(Path::new("/nowhere"), 0));
    }
}
