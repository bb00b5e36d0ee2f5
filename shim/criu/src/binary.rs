//! The CRIU program of this node, and its version.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use baton_fault::{Code, Fault, Result};
use rust_criu::rust_criu_protobuf::rpc;

use crate::swrk::Worker;

/// Oldest CRIU that dumps a frozen container of today's kernels: 4.1.1 cannot dump inet sockets on Linux 6.18.
pub const VERSION_MIN: Version = Version { major: 4, minor: 2, sublevel: 0 };

/// A version of CRIU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 4 of `4.2.1`.
    pub major: u32,
    /// 2 of `4.2.1`.
    pub minor: u32,
    /// 1 of `4.2.1`.
    pub sublevel: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.sublevel != 0 {
            write!(f, ".{}", self.sublevel)?;
        }
        Ok(())
    }
}

impl FromStr for Version {
    type Err = ();

    /// Reads `4.2` or `4.2.1`.
    fn from_str(text: &str) -> std::result::Result<Version, ()> {
        let mut parts = text.split('.').map(|part| part.parse::<u32>().map_err(drop));
        let (major, minor) = (parts.next().ok_or(())??, parts.next().ok_or(())??);
        let sublevel = parts.next().transpose()?.unwrap_or(0);
        if parts.next().is_some() { Err(()) } else { Ok(Version { major, minor, sublevel }) }
    }
}

/// A CRIU that is new enough.
#[derive(Clone, Debug)]
pub struct Criu {
    path: PathBuf,
    version: Version,
}

impl Criu {
    /// The `criu` on PATH.
    ///
    /// # Errors
    /// `CRIU_VERSION` when there is none or it is older than [`VERSION_MIN`].
    pub fn find() -> Result<Criu> {
        let path = std::env::var_os("PATH").and_then(|path| on_path(&path)).ok_or_else(|| {
            Fault::new(Code::CriuVersion, "look for criu on PATH", "there is none")
                .advise(format_args!("install CRIU {VERSION_MIN} or newer"))
        })?;
        let version = ask(&path)?;
        if version < VERSION_MIN {
            return Err(Fault::new(
                Code::CriuVersion,
                format_args!("use {}", path.display()),
                format_args!("it is CRIU {version}, needed is {VERSION_MIN} or newer"),
            )
            .advise(format_args!("install CRIU {VERSION_MIN} or newer")));
        }
        Ok(Criu { path, version })
    }

    /// Where the program is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }
}

fn on_path(path: &std::ffi::OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("criu"))
        .find(|file| file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0))
}

fn ask(path: &Path) -> Result<Version> {
    let mut worker = Worker::spawn(path, &[], false, None)?;
    let mut request = rpc::Criu_req::new();
    request.set_type(rpc::Criu_req_type::VERSION);
    let answer = worker.converse(&request, &mut ())?;
    worker.finish()?;
    let number = |n: i32| u32::try_from(n).unwrap_or(0);
    let answer = answer.version;
    Ok(Version {
        major: number(answer.major_number()),
        minor: number(answer.minor_number()),
        sublevel: number(answer.sublevel()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_as_numbers() {
        let version = |text: &str| text.parse::<Version>();
        assert_eq!(version("4.2.1").map(|v| v.to_string()), Ok("4.2.1".to_string()));
        assert!(version("4.10") > version("4.9.9"));
        assert_eq!(version("4.2"), Ok(VERSION_MIN));
        for text in ["", "4", "4.x", "4.2.1.0", "-4.2", "4.2 (gitid 1)"] {
            assert_eq!(version(text), Err(()), "{text}");
        }
    }

    #[test]
    fn versions_compare_by_number() {
        let old = Version { major: 3, minor: 17, sublevel: 1 };
        let new = Version { major: 4, minor: 10, sublevel: 0 };
        assert!(old < VERSION_MIN && new > VERSION_MIN);
        assert_eq!(old.to_string(), "3.17.1");
        assert_eq!(VERSION_MIN.to_string(), "4.2");
    }

    #[test]
    fn only_an_executable_file_in_an_absolute_folder_is_taken() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let file = dir.path().join("criu");
        std::fs::write(&file, "").expect("write");
        assert_eq!(on_path(dir.path().as_os_str()), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("chmod");
        assert_eq!(on_path(dir.path().as_os_str()), Some(file));
        assert_eq!(on_path(std::ffi::OsStr::new("relative:.")), None);
    }
}
