//! The bundle: config.json and the root filesystem beside it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use oci_spec::runtime::{LinuxNamespaceType, Mount, Spec};

use crate::proc_mounts;

/// Largest config.json, in bytes; a large seccomp profile takes some 100 KiB.
const CONFIG_MAX: u64 = 16 << 20;

/// A bundle whose spec parses and has what every container needs.
#[derive(Debug)]
pub(crate) struct Bundle {
    /// Absolute path.
    pub(crate) path: PathBuf,
    /// The live spec.
    pub(crate) spec: Spec,
    /// The root filesystem on this host, without symbolic links.
    pub(crate) rootfs: PathBuf,
}

impl Bundle {
    /// Refuses what would leave the container less confined than its spec says, or let it loose.
    ///
    /// # Errors
    /// `BUNDLE`, naming it.
    pub(crate) fn check_confinement(&self) -> Result<()> {
        let label = self.spec.process().as_ref().and_then(|process| process.selinux_label().as_deref());
        if let Some(label) = label.filter(|label| !label.is_empty()) {
            // libcontainer would run the program without it, and say nothing.
            return Err(Fault::new(Code::Bundle, format_args!("set the SELinux label {label}"), "Baton cannot")
                .advise("leave it out, or use another runtime where SELinux is to confine containers"));
        }
        proc_mounts::check(self)
    }

    /// Reads a bundle.
    ///
    /// # Errors
    /// `FILE` when something is missing, `BUNDLE` when config.json is not a runtime spec for Linux.
    pub(crate) fn open(path: &Path) -> Result<Bundle> {
        let path = path.canonicalize().attempt(|| format!("open bundle {}", path.display()))?;
        let config = path.join("config.json");
        let wrong = |why: String| {
            Fault::new(Code::Bundle, format_args!("read {}", config.display()), why)
                .advise("pass a bundle as the OCI runtime specification describes it")
        };
        let mut bytes = Vec::new();
        File::open(&config)
            .and_then(|file| file.take(CONFIG_MAX + 1).read_to_end(&mut bytes))
            .attempt(|| format!("read {}", config.display()))?;
        if bytes.len() as u64 > CONFIG_MAX {
            return Err(wrong(format!("larger than {CONFIG_MAX} bytes")));
        }
        let spec: Spec = serde_json::from_slice(&bytes).map_err(|err| wrong(err.to_string()))?;
        if spec.linux().is_none() {
            return Err(wrong("no \"linux\" section".into()));
        }
        let root = spec.root().as_ref().ok_or_else(|| wrong("no \"root\" section".into()))?.path();
        let rootfs = path.join(root);
        let rootfs = rootfs.canonicalize().attempt(|| format!("open root filesystem {}", rootfs.display()))?;
        Ok(Bundle { path, spec, rootfs })
    }

    /// The spec's mounts.
    pub(crate) fn mounts(&self) -> &[Mount] {
        self.spec.mounts().as_deref().unwrap_or_default()
    }

    /// Where the spec wants a namespace from: `None` when the container has none of its own, else the path to join
    /// or `None` for a new one.
    pub(crate) fn namespace(&self, kind: LinuxNamespaceType) -> Option<Option<&Path>> {
        let namespaces = self.spec.linux().as_ref()?.namespaces().as_deref()?;
        namespaces.iter().find(|ns| ns.typ() == kind).map(|ns| ns.path().as_deref())
    }
}

/// Whether a mount of the spec binds something of the host.
pub(crate) fn is_bind(mount: &Mount) -> bool {
    mount.typ().as_deref() == Some("bind")
        || mount.options().iter().flatten().any(|option| option == "bind" || option == "rbind")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_bundle_is_said() {
        let dir = tempfile::tempdir().expect("temporary folder");
        assert_eq!(Bundle::open(&dir.path().join("none")).expect_err("missing").code, Code::File);
        assert_eq!(Bundle::open(dir.path()).expect_err("no config").code, Code::File);
        for text in ["{", "[]", "{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"rootfs\"}}"] {
            std::fs::write(dir.path().join("config.json"), text).expect("write");
            assert_eq!(Bundle::open(dir.path()).expect_err(text).code, Code::Bundle, "{text}");
        }
    }
}
