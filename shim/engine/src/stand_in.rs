//! A spec, or a whole bundle, that stands in for the real one while libcontainer 0.7 creates a container of which it
//! cannot read the spec as it is. It says the same in libcontainer's words; everything else in the bundle is a link to
//! the real one.
//!
//! - A container without a cgroup namespace of its own gets the cgroup filesystems of version 1 as bind
//!   mounts of its groups. libcontainer mounts them only after a look at `/proc/N/cgroup` of this host, where N is the
//!   number that the new process has in the joined namespace (`mount_cgroup_v1` in its `rootfs/mount.rs`). Where the
//!   host has no process N, creation fails.
//! - The propagation `rslave` of the root filesystem becomes `slave`, and so on: libcontainer knows only the words
//!   without `r`, and takes all of them for what is below too.
//! - A container with a user namespace finds the sources of its bind mounts where [`Sources`] has put them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use oci_spec::OciSpecError;
use oci_spec::runtime::{LinuxNamespaceType, Mount, MountBuilder, Spec};

use crate::bundle::Bundle;
use crate::cgroup::Cgroup;
use crate::external::is_cgroup;
use crate::sources::Sources;

/// Removed with the value.
#[derive(Debug)]
pub(crate) struct StandIn(PathBuf);

impl StandIn {
    /// The stand-in for a container's bundle, if it needs one; in the folder `root` of all containers, under a name that
    /// is no container's.
    pub(crate) fn of(
        bundle: &Bundle,
        root: &Path,
        id: &str,
        systemd: bool,
        sources: Option<&Sources>,
    ) -> Result<Option<StandIn>> {
        let cgroup = Cgroup::asked_for(&bundle.spec, id, systemd)?;
        let spec = match (spec(bundle, &cgroup)?, sources) {
            (None, None) => return Ok(None),
            (Some(spec), None) => spec,
            (spec, Some(sources)) => {
                let mut spec = spec.unwrap_or_else(|| rooted(bundle));
                sources.put_into(&mut spec);
                spec
            }
        };
        let stand_in = StandIn(place(root, id));
        // One may be left of a creation that was killed.
        let _ = fs::remove_dir_all(&stand_in.0);
        let what = || format!("make {}", stand_in.0.display());
        fs::create_dir_all(&stand_in.0).attempt(what)?;
        for entry in fs::read_dir(&bundle.path).attempt(what)? {
            let entry = entry.attempt(what)?;
            if entry.file_name() != "config.json" {
                symlink(entry.path(), stand_in.0.join(entry.file_name())).attempt(what)?;
            }
        }
        spec.save(stand_in.0.join("config.json")).map_err(|err| Fault::new(Code::File, what(), err))?;
        Ok(Some(stand_in))
    }

    /// Its folder.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Removes what a creation that was killed has left.
    pub(crate) fn forget(root: &Path, id: &str) {
        // Best effort: there hardly ever is one.
        let _ = fs::remove_dir_all(place(root, id));
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// No id has an `@`.
fn place(root: &Path, id: &str) -> PathBuf {
    root.join(format!("{id}@bundle"))
}

/// Whether the cgroup filesystems become bind mounts. A container with a cgroup namespace sees the filesystems
/// themselves, unless libcontainer cannot mount them.
fn binds_cgroups(bundle: &Bundle, cgroup: &Cgroup) -> bool {
    let joins = matches!(bundle.namespace(LinuxNamespaceType::Pid), Some(Some(_)));
    let looks_down = bundle.namespace(LinuxNamespaceType::Cgroup).is_none();
    !cgroup.is_unified() && (joins || looks_down) && bundle.mounts().iter().any(is_cgroup)
}

/// libcontainer's word for the propagation of the root filesystem, where the spec has another.
fn simple_propagation(bundle: &Bundle) -> Option<&'static str> {
    match bundle.spec.linux().as_ref()?.rootfs_propagation().as_deref()? {
        "rshared" => Some("shared"),
        "rslave" => Some("slave"),
        "rprivate" => Some("private"),
        "runbindable" => Some("unbindable"),
        _ => None,
    }
}

/// The bundle's spec in libcontainer's words, if it has others.
///
/// # Errors
/// `BUNDLE` when the mounts cannot be described.
pub(crate) fn spec(bundle: &Bundle, cgroup: &Cgroup) -> Result<Option<Spec>> {
    let (cgroups, propagation) = (binds_cgroups(bundle, cgroup), simple_propagation(bundle));
    if !cgroups && propagation.is_none() {
        return Ok(None);
    }
    let mut spec = rooted(bundle);
    if cgroups {
        let mut mounts = Vec::new();
        for mount in bundle.mounts() {
            match is_cgroup(mount) {
                true => mounts.extend(binds(mount.destination(), cgroup).map_err(|err| {
                    Fault::new(Code::Bundle, format_args!("mount cgroups at {}", mount.destination().display()), err)
                })?),
                false => mounts.push(mount.clone()),
            }
        }
        spec.set_mounts(Some(mounts));
    }
    if let (Some(word), Some(linux)) = (propagation, spec.linux_mut()) {
        linux.set_rootfs_propagation(Some(word.to_owned()));
    }
    Ok(Some(spec))
}

/// The bundle's spec, which says the same from wherever it is read.
fn rooted(bundle: &Bundle) -> Spec {
    let mut spec = bundle.spec.clone();
    if let Some(root) = spec.root_mut() {
        root.set_path(bundle.rootfs.clone());
    }
    spec
}

/// What stands for a cgroup mount at `point`: a tmpfs with the container's group of each hierarchy. All of it is writable
/// until `mount_finish` closes it.
fn binds(point: &Path, cgroup: &Cgroup) -> std::result::Result<Vec<Mount>, OciSpecError> {
    let options = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let base = MountBuilder::default().destination(point).typ("tmpfs").source("tmpfs");
    let mut mounts = vec![base.options(options(&["nosuid", "noexec", "nodev", "mode=755"])).build()?];
    for name in cgroup.hierarchies() {
        let Some(group) = cgroup.hierarchy(&name) else { continue };
        let mount = MountBuilder::default().destination(point.join(&name)).typ("bind").source(group);
        mounts.push(mount.options(options(&["rbind", "nosuid", "noexec", "nodev"])).build()?);
    }
    Ok(mounts)
}
