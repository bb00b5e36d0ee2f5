//! The driver's libraries and firmware, found by version.

use std::fs::File;
use std::path::{Path, PathBuf};

use baton_config::Driver;
use baton_fault::{Code, Fault, Result};
use baton_hook::Link;

use crate::plan::Mount;
use crate::root::{DriverRoot, library_dir_names};
use crate::soname;

/// NVML, without its version.
pub const NVML: &str = "libnvidia-ml.so";
/// The CUDA driver library, without its version.
pub const CUDA: &str = "libcuda.so";
/// Longest driver version, in bytes: `570.124.06` and some room.
const VERSION_MAX: usize = 32;

/// What of the driver goes into a container.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Libraries and firmware.
    pub mounts: Vec<Mount>,
    /// Names by which programs find the libraries.
    pub links: Vec<Link>,
    /// Directories in the container that hold them.
    pub dirs: Vec<PathBuf>,
}

/// The path of `libcuda.so.1` on this node, for the process that drives CUDA.
///
/// # Errors
/// `DRIVER_MISSING`, saying where it was looked for.
pub fn cuda_library(driver: &Driver) -> Result<PathBuf> {
    locate(&DriverRoot::open(driver)?, CUDA)
}

/// The real path of a library: what `<name>.1` names, or else the newest version that lies there.
pub fn locate(root: &DriverRoot, name: &str) -> Result<PathBuf> {
    for dir in root.library_dirs() {
        if let Ok(path) = root.rooted().real_path(&dir.join(format!("{name}.1"))) {
            return Ok(path);
        }
        let names = root.names(&dir).unwrap_or_default();
        let newest = names
            .iter()
            .filter_map(|file| file.to_str())
            .filter(|file| version_of(file, name).is_some() && root.regular(&dir.join(file)).is_some())
            .max_by_key(|file| numbers(file));
        if let Some(path) = newest.and_then(|file| root.rooted().real_path(&dir.join(file)).ok()) {
            return Ok(path);
        }
    }
    Err(missing(root, name))
}

/// Every library of driver `version`, and its firmware.
///
/// # Errors
/// `DRIVER_MISSING` when there is no CUDA or NVML library of that version.
pub fn find(root: &DriverRoot, version: &str) -> Result<Found> {
    let mut found = Found::default();
    let mut names = Vec::new();
    let suffix = format!(".so.{version}");
    for dir in root.library_dirs() {
        for file in root.names(&dir).unwrap_or_default() {
            let Some(file) = file.to_str().filter(|file| file.ends_with(&suffix)) else { continue };
            if names.iter().any(|name| name == file) {
                continue;
            }
            if let Some(opened) = root.regular(&dir.join(file)) {
                found.add_library(root, &dir, file, &File::from(opened));
                names.push(file.to_owned());
            }
        }
    }
    for required in [CUDA, NVML] {
        if !names.iter().any(|name| *name == format!("{required}.{version}")) {
            return Err(missing(root, &format!("{required}.{version}")));
        }
    }
    found.add_firmware(root, version);
    Ok(found)
}

impl Found {
    fn add_library(&mut self, root: &DriverRoot, dir: &Path, file: &str, opened: &File) {
        let Ok(source) = root.rooted().real_path(&dir.join(file)) else { return };
        self.mounts.push(Mount { source, destination: dir.join(file) });
        if !self.dirs.iter().any(|known| known == dir) {
            self.dirs.push(dir.to_owned());
        }
        let stem = file.split_once(".so.").map_or(file, |(stem, _)| stem);
        let soname = soname::read(opened).unwrap_or_else(|| format!("{stem}.so.1"));
        if soname != file {
            self.links.push(Link { path: dir.join(&soname), target: file.to_owned() });
        }
        // What programs that were linked without a version look up.
        if file.starts_with("libcuda.so.") {
            self.links.push(Link { path: dir.join(CUDA), target: soname });
        }
    }

    /// The GSP firmware: whatever lies there under its name is bound, as the driver's own installer leaves it.
    fn add_firmware(&mut self, root: &DriverRoot, version: &str) {
        let dir = PathBuf::from("/lib/firmware/nvidia").join(version);
        for file in root.names(&dir).unwrap_or_default() {
            let is_gsp = file.to_str().is_some_and(|file| file.starts_with("gsp") && file.ends_with(".bin"));
            if let (true, Ok(source)) = (is_gsp, root.rooted().real_path(&dir.join(&file))) {
                self.mounts.push(Mount { source, destination: dir.join(&file) });
            }
        }
    }
}

/// The version in `libcuda.so.570.124.06`; the `1` of a SONAME is none.
fn version_of<'a>(file: &'a str, name: &str) -> Option<&'a str> {
    let version = file.strip_prefix(name)?.strip_prefix('.')?;
    is_version(version).then_some(version)
}

/// Whether a text can be a driver version: it becomes part of paths.
pub fn is_version(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= VERSION_MAX && text.contains('.') && text.split('.').all(number)
}

fn numbers(file: &str) -> Vec<u64> {
    file.split('.').filter_map(|part| part.parse().ok()).collect()
}

fn missing(root: &DriverRoot, name: &str) -> Fault {
    let dirs: Vec<_> = library_dir_names().iter().map(|dir| dir.display().to_string()).collect();
    Fault::new(
        Code::DriverMissing,
        format!("find the NVIDIA driver under {}", root.rooted().path().display()),
        format!("no {name} in {}", dirs.join(", ")),
    )
    .advise("install the driver, or set driver.root in /etc/baton/config.toml")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeDriver, VERSION};

    #[test]
    fn libraries_are_found_by_version_with_their_names() {
        let fake = FakeDriver::new();
        let found = find(&fake.root(), VERSION).expect("found");
        let lib = |name: &str| fake.lib_dir().join(name);
        let mut mounted: Vec<_> = found.mounts.iter().map(|mount| mount.destination.clone()).collect();
        mounted.sort();
        assert_eq!(
            mounted,
            [
                PathBuf::from(format!("/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin")),
                lib("libcuda.so.570.124.06"),
                lib("libnvidia-glcore.so.570.124.06"),
                lib("libnvidia-ml.so.570.124.06"),
            ]
        );
        let link = |name: &str, target: &str| Link { path: lib(name), target: target.into() };
        assert_eq!(
            found.links,
            [
                link("libcuda.so.1", "libcuda.so.570.124.06"),
                link("libcuda.so", "libcuda.so.1"),
                link("libnvidia-ml.so.1", "libnvidia-ml.so.570.124.06"),
            ]
        );
        assert_eq!(found.dirs, [fake.lib_dir()]);
        let real = std::fs::canonicalize(fake.path().join("usr/lib64/libcuda.so.570.124.06")).expect("real");
        assert!(found.mounts.iter().any(|mount| mount.source == real));
    }

    #[test]
    fn the_library_to_load_is_what_its_name_points_at() {
        let fake = FakeDriver::new();
        let real = |name: &str| std::fs::canonicalize(fake.path().join("usr/lib64").join(name)).expect("real");
        assert_eq!(cuda_library(&fake.driver()), Ok(real("libcuda.so.570.124.06")));
        std::fs::remove_file(fake.path().join("usr/lib64/libcuda.so.1")).expect("unlink");
        assert_eq!(cuda_library(&fake.driver()), Ok(real("libcuda.so.570.124.06")));
    }

    #[test]
    fn another_version_and_no_driver_are_named() {
        let fake = FakeDriver::new();
        let fault = find(&fake.root(), "535.1.1").expect_err("missing");
        assert_eq!(fault.code, Code::DriverMissing);
        assert!(fault.to_string().contains("libcuda.so.535.1.1"), "{fault}");
        let empty = tempfile::tempdir().expect("empty");
        let fault = cuda_library(&Driver { root: empty.path().into() }).expect_err("no driver");
        assert_eq!(fault.code, Code::DriverMissing);
        assert!(fault.to_string().contains("/usr/lib64"), "{fault}");
    }

    #[test]
    fn a_version_is_numbers_and_dots() {
        for text in ["570.124.06", "570.1"] {
            assert!(is_version(text));
        }
        for text in ["1", "", "570.", "../570.1", "570.x", "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16"] {
            assert!(!is_version(text), "{text}");
        }
    }
}
