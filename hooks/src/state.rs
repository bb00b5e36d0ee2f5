//! The container as the runtime describes it to a hook: the OCI state, and the bundle it names.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use serde_json::Value;

use baton_rooted::Rooted;

/// Largest OCI state, in bytes.
const STATE_MAX: usize = 1 << 20;
/// Largest config.json that is read, in bytes; containerd's are tens of kilobytes.
const CONFIG_MAX: u64 = 16 << 20;

/// Where a container lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    bundle: PathBuf,
}

impl Container {
    /// Reads the OCI state that a runtime writes to a hook's standard input.
    ///
    /// # Errors
    /// `BUNDLE` when it is too long, does not parse or names no bundle.
    pub fn from_state(state: &[u8]) -> Result<Container> {
        let refuse = |why: String| {
            Fault::new(Code::Bundle, "read the container's state from standard input", why)
                .advise("start this program as an OCI hook")
        };
        if state.len() > STATE_MAX {
            return Err(refuse(format!("more than {STATE_MAX} bytes")));
        }
        let state: Value = serde_json::from_slice(state).map_err(|err| refuse(err.to_string()))?;
        let bundle = state.get("bundle").and_then(Value::as_str).ok_or_else(|| refuse("it names no bundle".into()))?;
        if !Path::new(bundle).is_absolute() {
            return Err(refuse(format!("bundle {bundle:?} is not an absolute path")));
        }
        Ok(Container { bundle: bundle.into() })
    }

    /// The bundle's directory.
    pub fn bundle(&self) -> &Path {
        &self.bundle
    }

    /// The root filesystem that the bundle's config.json names.
    ///
    /// # Errors
    /// `BUNDLE` when config.json names none, `FILE` when something is missing.
    pub fn rootfs(&self) -> Result<Rooted> {
        let file = self.bundle.join("config.json");
        let reading = || format!("read {}", file.display());
        let mut text = Vec::new();
        File::options()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&file)
            .and_then(|opened| opened.take(CONFIG_MAX + 1).read_to_end(&mut text))
            .attempt(reading)?;
        let refuse = |why: String| {
            Fault::new(Code::Bundle, reading(), why)
                .advise("the bundle must hold a config.json of the OCI runtime specification")
        };
        if text.len() as u64 > CONFIG_MAX {
            return Err(refuse(format!("more than {CONFIG_MAX} bytes")));
        }
        let config: Value = serde_json::from_slice(&text).map_err(|err| refuse(err.to_string()))?;
        let root = config.pointer("/root/path").and_then(Value::as_str).ok_or_else(|| refuse("no root.path".into()))?;
        let root = self.bundle.join(root);
        Rooted::open(&root).attempt(|| format!("open the root filesystem {}", root.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_names_the_bundle_and_the_bundle_the_rootfs() {
        let bundle = tempfile::tempdir().expect("bundle");
        std::fs::create_dir(bundle.path().join("rootfs")).expect("rootfs");
        std::fs::write(bundle.path().join("config.json"), r#"{"root":{"path":"rootfs"}}"#).expect("config");
        let state =
            serde_json::json!({"ociVersion": "1.2.0", "id": "job", "status": "creating", "bundle": bundle.path()});
        let container = Container::from_state(state.to_string().as_bytes()).expect("state");
        let rootfs = container.rootfs().expect("rootfs");
        assert_eq!(rootfs.path(), std::fs::canonicalize(bundle.path().join("rootfs")).expect("path"));
    }

    #[test]
    fn a_state_without_a_bundle_is_refused() {
        for state in ["", "[]", "{}", r#"{"bundle": 1}"#, r#"{"bundle": "relative"}"#, "{"] {
            assert_eq!(Container::from_state(state.as_bytes()).expect_err("refused").code, Code::Bundle, "{state}");
        }
        assert_eq!(Container::from_state(&vec![b' '; STATE_MAX + 1]).expect_err("refused").code, Code::Bundle);
    }

    #[test]
    fn a_bundle_without_a_rootfs_is_refused() {
        let bundle = tempfile::tempdir().expect("bundle");
        let container = Container { bundle: bundle.path().into() };
        assert_eq!(container.rootfs().expect_err("no config").code, Code::File);
        std::fs::write(bundle.path().join("config.json"), "{}").expect("config");
        assert_eq!(container.rootfs().expect_err("no root").code, Code::Bundle);
    }
}
