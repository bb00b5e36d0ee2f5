//! Root filesystems of user namespaces. containerd leaves the files of an image with the owners that the image names,
//! and asks by the options `uidmap=` and `gidmap=` that they be shown shifted into the ids of the pod. The kernel can
//! do so for a mount (mount_setattr(2), `MOUNT_ATTR_IDMAP`); of an overlay it does so for each lower layer.
//!
//! All of it is made in a mount namespace of its own, on a tmpfs of its own, and only the finished root filesystem is
//! brought out. So whatever fails, nothing is left to undo, and of the shifted layers nothing is ever seen.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use containerd_shim_protos::api::Mount;
use nix::mount::MsFlags;
use nix::sched::{CloneFlags, unshare};

use crate::create::blocking;
use crate::user_namespace::{self, Mapping};

const LOWER: &str = "lowerdir=";
const HERE: &CStr = c"";

/// A root filesystem whose files are to be shown with other owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idmapped {
    kind: String,
    source: String,
    users: Mapping,
    groups: Mapping,
    /// Layers of an overlay, the uppermost first.
    lower: Vec<String>,
    /// All other options.
    options: Vec<String>,
}

impl Idmapped {
    /// What a mount asks for; nothing when it is an ordinary one.
    ///
    /// # Errors
    /// `BUNDLE` for a mapping that is none, that of one kind of ids only, or an overlay without layers.
    pub fn asked(mount: &Mount) -> Result<Option<Idmapped>> {
        let wrong = |why: String| {
            Err(Fault::new(Code::Bundle, "read the id mapping of the root filesystem", why)
                .advise("`uidmap=` and `gidmap=` both say INSIDE:OUTSIDE:COUNT; see containerd's snapshotter"))
        };
        let (mut users, mut groups) = (None, None);
        let (mut lower, mut options) = (Vec::new(), Vec::new());
        for option in &mount.options {
            let (into, text) = match option.split_once('=') {
                Some(("uidmap", text)) => (&mut users, text),
                Some(("gidmap", text)) => (&mut groups, text),
                Some(("lowerdir", layers)) if mount.type_ == "overlay" => {
                    lower = layers.split(':').map(str::to_owned).collect();
                    continue;
                }
                _ => {
                    options.push(option.clone());
                    continue;
                }
            };
            let Some(mapping) = Mapping::parse(text) else { return wrong(format!("{option:?} is none")) };
            *into = Some(mapping);
        }
        let (users, groups) = match (users, groups) {
            (None, None) => return Ok(None),
            (Some(users), Some(groups)) => (users, groups),
            _ => return wrong("users and groups are not both mapped".to_owned()),
        };
        if mount.type_ == "overlay" && lower.is_empty() {
            return wrong("the overlay has no lower layer".to_owned());
        }
        let (kind, source) = (mount.type_.clone(), mount.source.clone());
        Ok(Some(Idmapped { kind, source, users, groups, lower, options }))
    }

    /// Mounts it.
    ///
    /// # Errors
    /// `SYSTEM`, for one where a file system knows no shifted owners. Nothing is mounted then.
    pub async fn mount(self, target: &Path) -> Result<()> {
        let namespace = user_namespace::with(&self.users, &self.groups).await?;
        let target = target.to_owned();
        blocking(move || {
            let tree = std::thread::scope(|scope| {
                // A thread that has left the mount namespace does not come back; the namespace ends with it.
                let maker = scope.spawn(|| self.make(&target, &namespace));
                maker.join().unwrap_or_else(|_| Err(Fault::new(Code::System, "mount a root filesystem", "it panicked")))
            })?;
            attach(&tree, &target).attempt(|| format!("mount {}", target.display()))
        })
        .await
    }

    /// Makes the root filesystem in a mount namespace of the calling thread's own; a mount that hangs nowhere.
    fn make(&self, folder: &Path, namespace: &File) -> Result<OwnedFd> {
        private_tmpfs(folder).attempt(|| format!("make a mount namespace to mount {} in", folder.display()))?;
        let mut options = self.options.clone();
        let mut layers = Vec::new();
        for (number, lower) in self.lower.iter().enumerate() {
            let layer = folder.join(number.to_string());
            fs::create_dir(&layer).attempt(|| format!("make {}", layer.display()))?;
            let tree = copy(Path::new(lower)).attempt(|| format!("copy the mount of {lower}"))?;
            shift(&tree, namespace, lower)?;
            attach(&tree, &layer).attempt(|| format!("mount {}", layer.display()))?;
            layers.push(layer.to_string_lossy().into_owned());
        }
        if !layers.is_empty() {
            options.push(format!("{LOWER}{}", layers.join(":")));
        }
        let root = folder.join("root");
        fs::create_dir(&root).attempt(|| format!("make {}", root.display()))?;
        let some = |text: &'_ str| Some(text.to_owned()).filter(|text| !text.is_empty());
        containerd_shim::mount::mount_rootfs(
            some(&self.kind).as_deref(),
            some(&self.source).as_deref(),
            &options,
            &root,
        )
        .map_err(|err| {
            Fault::new(Code::System, format!("mount the {} of a user namespace", self.kind), err)
                .advise("an overlay of id-mapped layers needs Linux 5.19; see `dmesg`")
        })?;
        let tree = copy(&root).attempt(|| format!("copy the mount of {}", root.display()))?;
        if layers.is_empty() {
            shift(&tree, namespace, &self.source)?;
        }
        Ok(tree)
    }
}

/// Takes the calling thread to a mount namespace of its own, with an empty tmpfs on a folder.
fn private_tmpfs(folder: &Path) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    nix::mount::mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    nix::mount::mount(Some("tmpfs"), folder, Some("tmpfs"), flags, Some("mode=0700,size=1m"))?;
    Ok(())
}

/// A copy of the mount that a folder is on, from that folder on, which hangs nowhere.
fn copy(folder: &Path) -> io::Result<OwnedFd> {
    let folder = CString::new(folder.as_os_str().as_bytes())?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
    // SAFETY: the path ends with a NUL and outlives the call, which takes no other memory.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, folder.as_ptr(), flags) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made the descriptor for this call; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Shifts the owners that a mount shows by the mappings of a user namespace.
fn shift(tree: &OwnedFd, namespace: &File, name: &str) -> Result<()> {
    let userns_fd = u64::try_from(namespace.as_fd().as_raw_fd()).unwrap_or(u64::MAX);
    let attributes = libc::mount_attr { attr_set: libc::MOUNT_ATTR_IDMAP, attr_clr: 0, propagation: 0, userns_fd };
    // SAFETY: the path ends with a NUL and the attributes have the size that is passed; both outlive the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            HERE.as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 {
        return Ok(());
    }
    let fault =
        Fault::new(Code::System, format!("shift the owners of the files in {name}"), io::Error::last_os_error());
    Err(fault.advise("its file system must know id-mapped mounts (ext4, xfs, btrfs do); or set `hostUsers: true`"))
}

/// Hangs a mount that hangs nowhere on a folder.
fn attach(tree: &OwnedFd, folder: &Path) -> io::Result<()> {
    let folder = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: both paths end with a NUL and outlive the call, which takes no other memory.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            HERE.as_ptr(),
            libc::AT_FDCWD,
            folder.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(kind: &str, options: &[&str]) -> Mount {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Mount { type_: kind.into(), source: "from".into(), options, ..Mount::default() }
    }

    #[test]
    fn a_mount_without_mappings_is_an_ordinary_one() {
        let ordinary = mount("overlay", &["index=off", "lowerdir=/a:/b", "upperdir=/c", "workdir=/d"]);
        assert_eq!(Idmapped::asked(&ordinary).expect("read"), None);
        assert_eq!(Idmapped::asked(&mount("bind", &["rbind", "ro"])).expect("read"), None);
    }

    #[test]
    fn mappings_and_layers_are_told_from_the_options_that_stay() {
        let overlay = mount(
            "overlay",
            &["uidmap=0:1000:10", "gidmap=0:2000:20", "workdir=/d", "upperdir=/c", "lowerdir=/a:/b", "ro"],
        );
        let asked = Idmapped::asked(&overlay).expect("read").expect("a mapping");
        assert_eq!(Some(&asked.users), Mapping::parse("0:1000:10").as_ref());
        assert_eq!(Some(&asked.groups), Mapping::parse("0:2000:20").as_ref());
        assert_eq!(asked.lower, ["/a", "/b"]);
        assert_eq!(asked.options, ["workdir=/d", "upperdir=/c", "ro"]);
        let bind = mount("bind", &["gidmap=0:2000:20", "uidmap=0:1000:10", "rbind"]);
        let asked = Idmapped::asked(&bind).expect("read").expect("a mapping");
        assert_eq!((asked.lower.len(), asked.options), (0, vec!["rbind".to_owned()]));
    }

    #[test]
    fn half_a_mapping_a_wrong_one_and_an_overlay_of_nothing_are_refused() {
        let both = ["uidmap=0:1000:10", "gidmap=0:2000:20"];
        let cases = [
            mount("bind", &both[..1]),
            mount("bind", &both[1..]),
            mount("bind", &["uidmap=0:1000", both[1]]),
            mount("overlay", &both),
        ];
        for case in cases {
            let refused = Idmapped::asked(&case).err().map(|fault| fault.code);
            assert_eq!(refused, Some(Code::Bundle), "{:?}", case.options);
        }
    }
}
