//! Sources of bind mounts, for a container with a user namespace. libcontainer 0.7 looks for them when its root is a
//! mapped user already, who may not pass folders that are the host root's alone; containerd keeps the files that it
//! mounts into pods below one. So each is bound to a place that everybody can reach, in a mount namespace of this
//! process's own: the host sees none of it, and the container leaves it behind when it moves to its root filesystem.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use oci_spec::runtime::{LinuxNamespaceType, Mount, Spec};

use crate::bundle::{Bundle, is_bind};

/// Who can reach it may pass, and see nothing.
const PASS: u32 = 0o711;

/// The places of the sources. They go with the value; the mount namespace stays.
#[derive(Debug)]
pub(crate) struct Sources {
    folder: PathBuf,
    /// Source, whether with what is mounted below it, and its place.
    places: Vec<(PathBuf, bool, PathBuf)>,
}

impl Sources {
    /// Binds the sources of a bundle's mounts, if its container has a user namespace. This process must have one thread.
    ///
    /// # Errors
    /// `SYSTEM` or `FILE`.
    pub(crate) fn of(bundle: &Bundle) -> Result<Option<Sources>> {
        if bundle.namespace(LinuxNamespaceType::User).is_none() {
            return Ok(None);
        }
        let folder = bundle.path.join("sources");
        own_namespace(&folder).attempt(|| format!("make {} for the sources of bind mounts", folder.display()))?;
        let mut sources = Sources { folder, places: Vec::new() };
        for mount in bundle.mounts().iter().filter(|mount| is_bind(mount)) {
            sources.add(mount)?;
        }
        Ok(Some(sources))
    }

    fn add(&mut self, mount: &Mount) -> Result<()> {
        // libcontainer says it of one that does not exist.
        let Some(source) = mount.source().as_ref().filter(|source| source.is_absolute() && source.exists()) else {
            return Ok(());
        };
        let place = self.folder.join(self.places.len().to_string());
        let what = || format!("bind {} to {}", source.display(), place.display());
        let made = if source.is_dir() { fs::create_dir(&place) } else { File::create(&place).map(drop) };
        made.attempt(what)?;
        let below = takes_below(mount);
        bind(source, &place, below).attempt(what)?;
        self.places.push((source.clone(), below, place));
        Ok(())
    }

    /// Has a spec's mounts take their sources from their places.
    pub(crate) fn put_into(&self, spec: &mut Spec) {
        let mut mounts = spec.mounts().clone().unwrap_or_default();
        for mount in mounts.iter_mut().filter(|mount| is_bind(mount)) {
            let below = takes_below(mount);
            let of = |place: &&(PathBuf, bool, PathBuf)| Some(&place.0) == mount.source().as_ref() && place.1 == below;
            if let Some((_, _, place)) = self.places.iter().find(of) {
                mount.set_source(Some(place.clone()));
            }
        }
        spec.set_mounts(Some(mounts));
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        // Best effort: the mounts end with this process, the folder with its bundle.
        let _ = umount2(&self.folder, MntFlags::MNT_DETACH);
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Takes this process to a mount namespace of its own, with an empty tmpfs on a folder.
fn own_namespace(folder: &Path) -> std::io::Result<()> {
    let none = None::<&str>;
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(PASS))?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), folder, Some("tmpfs"), flags, Some(format!("mode={PASS:o}").as_str()))?;
    Ok(())
}

fn bind(source: &Path, place: &Path, below: bool) -> std::io::Result<()> {
    let flags = MsFlags::MS_BIND | if below { MsFlags::MS_REC } else { MsFlags::empty() };
    mount(Some(source), place, None::<&str>, flags, None::<&str>)?;
    Ok(())
}

/// Whether a mount takes what is mounted below its source too.
fn takes_below(mount: &Mount) -> bool {
    mount.options().iter().flatten().any(|option| option == "rbind")
}

#[cfg(test)]
mod tests {
    use oci_spec::runtime::{MountBuilder, SpecBuilder};

    use super::*;

    #[test]
    fn mounts_take_their_sources_from_their_places() {
        let mount = |source: &str, kind: &str, option: &str| {
            let base = MountBuilder::default().destination("/x").source(source).typ(kind);
            base.options(vec![option.to_owned()]).build().expect("a mount")
        };
        let mounts = [("/a", "bind", "bind"), ("/a", "bind", "rbind"), ("/b", "bind", "rbind"), ("/a", "ext4", "ro")];
        let mounts = mounts.map(|(source, kind, option)| mount(source, kind, option)).to_vec();
        let mut spec = SpecBuilder::default().mounts(mounts).build().expect("a spec");
        let places = vec![("/a".into(), true, "/s/0".into()), ("/a".into(), false, "/s/1".into())];
        let sources = Sources { folder: "/nowhere/s".into(), places };
        sources.put_into(&mut spec);
        let placed: Vec<_> = spec.mounts().iter().flatten().filter_map(|mount| mount.source().clone()).collect();
        assert_eq!(placed, ["/s/1", "/s/0", "/b", "/a"].map(PathBuf::from));
    }
}
