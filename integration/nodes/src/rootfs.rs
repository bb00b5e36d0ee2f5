//! The file system of a cell: an overlay over the shared root, with folders of its own mounted into it.
//!
//! Everything is mounted in the cell's own mount namespace, so it is gone with the last process of the cell.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_fault::{Attempt, Code, Fault, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, SFlag, makedev, mknod, umask};

use crate::cell::{Cell, Role};
use crate::{cgroup, cri, product};

/// Where the folder with the built programs is seen in a node.
pub const BIN: &str = "/run/baton-node/bin";
/// The driver root of a node, as `/etc/baton/config.toml` names it.
pub const DRIVER: &str = "/run/nvidia/driver";

/// Makes the folders of a cell on disk and the files that differ from node to node.
pub fn prepare(cell: &Cell, files: &[(&str, String)]) -> Result<()> {
    let disk = Cell::disk_dir(&cell.name);
    for dir in ["upper", "work", "lib", "tmp", "driver"] {
        let dir = disk.join(dir);
        fs::create_dir_all(&dir).attempt(|| format!("make {}", dir.display()))?;
    }
    for (dir, mode) in [("tmp", 0o1777), ("upper", 0o755), ("lib", 0o755)] {
        let dir = disk.join(dir);
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).attempt(|| format!("chmod {}", dir.display()))?;
    }
    for (path, text) in files {
        let path = disk.join("upper").join(path.trim_start_matches('/'));
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).attempt(|| format!("make {}", dir.display()))?;
        }
        fs::write(&path, text).attempt(|| format!("write {}", path.display()))?;
    }
    for program in programs(cell) {
        // What is mounted over a file needs a file below.
        let path = disk.join("upper/usr/local/bin").join(program.file_name().unwrap_or_default());
        fs::create_dir_all(path.with_file_name("")).attempt(|| format!("make {}", path.display()))?;
        fs::write(&path, "").attempt(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// The programs to install in /usr/local/bin: Baton's that are built, clients, and another containerd's.
fn programs(cell: &Cell) -> Vec<PathBuf> {
    if cell.role == Role::Hub {
        return Vec::new();
    }
    let mut found: Vec<PathBuf> = product::PROGRAMS.iter().map(|name| product::program(&cell.bin, name)).collect();
    for entry in
        cell.containerd.iter().chain(&cell.clients).filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten()
    {
        found.push(entry.path());
    }
    found.retain(|path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0));
    found
}

/// Mounts everything and makes it the root of the calling process, which must be the first of its own mount,
/// pid and cgroup namespaces.
pub fn enter(cell: &Cell) -> Result<()> {
    umask(Mode::from_bits_truncate(0o022));
    let disk = Cell::disk_dir(&cell.name);
    let root = Cell::run_dir(&cell.name).join("root");
    fs::create_dir_all(&root).attempt(|| format!("make {}", root.display()))?;
    attach(None, Path::new("/"), None, MsFlags::MS_PRIVATE | MsFlags::MS_REC, "")?;
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        cell.root.display(),
        disk.join("upper").display(),
        disk.join("work").display()
    );
    attach(Some("overlay".as_ref()), &root, Some("overlay"), MsFlags::empty(), &layers)?;
    mount_lib(cell, &disk, &root.join("var/lib"))?;
    bind(&disk.join("tmp"), &root.join("tmp"), false)?;
    kernel_trees(cell, &root)?;
    devices(&root.join("dev"))?;
    attach(Some("tmpfs".as_ref()), &root.join("run"), Some("tmpfs"), MsFlags::MS_NOSUID, "mode=755")?;
    if cell.role == Role::Node {
        fs::create_dir_all(root.join("run/lock")).attempt(|| "make /run/lock")?;
        bind(&cell.bin, &inside(&root, BIN), true)?;
        // Card memory is large and sparse: on disk, never on a tmpfs.
        bind(&disk.join("driver"), &inside(&root, DRIVER), false)?;
        if let Some(plugins) = &cell.network_plugins {
            bind(plugins, &inside(&root, cri::PLUGINS), true)?;
        }
        for program in programs(cell) {
            bind(&program, &root.join("usr/local/bin").join(program.file_name().unwrap_or_default()), true)?;
        }
    }
    pivot(&root)
}

fn inside(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// /var/lib: on the machine's disk, or a file system of the asked size that can be filled.
fn mount_lib(cell: &Cell, disk: &Path, target: &Path) -> Result<()> {
    let Some(size) = cell.disk else {
        return bind(&disk.join("lib"), target, false);
    };
    let image = disk.join("lib.ext4");
    let file = fs::File::create(&image).attempt(|| format!("make {}", image.display()))?;
    file.set_len(size).attempt(|| format!("make {} of {size} bytes", image.display()))?;
    // No journal and no reserve: the size asked for is what can be written, less the inodes.
    run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-O", "^has_journal"]).arg(&image))?;
    run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(target))?;
    let _ = fs::remove_dir(target.join("lost+found"));
    Ok(())
}

/// /proc, /sys and the cgroup hierarchies.
fn kernel_trees(cell: &Cell, root: &Path) -> Result<()> {
    let strict = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    attach(Some("proc".as_ref()), &root.join("proc"), Some("proc"), strict, "")?;
    // Writable as on any machine: the kernel gives a user namespace no sysfs with more rights than are seen already.
    attach(Some("sysfs".as_ref()), &root.join("sys"), Some("sysfs"), strict, "")?;
    cgroup_trees(cell.cgroup2, &root.join("sys/fs/cgroup"))
}

/// The cgroup hierarchies of the machine, as the calling process's cgroup namespace sees them, at `top`; version 2 alone
/// where that is asked for or all there is.
pub fn cgroup_trees(cgroup2: bool, top: &Path) -> Result<()> {
    let strict = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let hierarchies = cgroup::hierarchies()?;
    if cgroup2 || hierarchies.iter().all(cgroup::Hierarchy::is_v2) {
        attach(Some("cgroup2".as_ref()), top, Some("cgroup2"), strict, "")?;
        return cgroup::make_room(top);
    }
    attach(Some("tmpfs".as_ref()), top, Some("tmpfs"), strict, "mode=755")?;
    for hierarchy in hierarchies {
        let target = top.join(hierarchy.mount.file_name().unwrap_or_default());
        fs::create_dir_all(&target).attempt(|| format!("make {}", target.display()))?;
        let kind = if hierarchy.is_v2() { "cgroup2" } else { "cgroup" };
        attach(Some("cgroup".as_ref()), &target, Some(kind), strict, &hierarchy.controllers)?;
    }
    Ok(())
}

/// /dev with what a container engine needs.
fn devices(dev: &Path) -> Result<()> {
    attach(Some("tmpfs".as_ref()), dev, Some("tmpfs"), MsFlags::MS_NOSUID, "mode=755")?;
    fs::create_dir_all(dev.join("net")).attempt(|| format!("make {}/net", dev.display()))?;
    for (name, major, minor) in [
        ("null", 1, 3),
        ("zero", 1, 5),
        ("full", 1, 7),
        ("random", 1, 8),
        ("urandom", 1, 9),
        ("tty", 5, 0),
        ("fuse", 10, 229),
        ("net/tun", 10, 200),
    ] {
        let path = dev.join(name);
        let all = Mode::from_bits_truncate(0o666);
        mknod(&path, SFlag::S_IFCHR, all, makedev(major, minor))
            .map_err(|errno| Fault::io(format!("make device {}", path.display()), &errno.into()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))
            .attempt(|| format!("chmod {}", path.display()))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(target, dev.join(name)).attempt(|| format!("link {name} in {}", dev.display()))?;
    }
    for (name, kind, options) in [
        ("pts", "devpts", "newinstance,ptmxmode=0666,mode=0620,gid=5"),
        ("shm", "tmpfs", "mode=1777"),
        ("mqueue", "mqueue", ""),
    ] {
        let target = dev.join(name);
        fs::create_dir_all(&target).attempt(|| format!("make {}", target.display()))?;
        attach(Some(kind.as_ref()), &target, Some(kind), MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC, options)?;
    }
    Ok(())
}

/// Makes `root` the root, and lets go of everything that was there before.
pub fn pivot(root: &Path) -> Result<()> {
    std::env::set_current_dir(root).attempt(|| format!("enter {}", root.display()))?;
    nix::unistd::pivot_root(".", ".")
        .map_err(|errno| Fault::io(format!("make {} the root", root.display()), &errno.into()))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(|errno| Fault::io("let go of the old root", &errno.into()))?;
    std::env::set_current_dir("/").attempt(|| "enter the new root")
}

fn bind(from: &Path, to: &Path, read_only: bool) -> Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to).attempt(|| format!("make {}", to.display()))?;
    }
    attach(Some(from), to, None, MsFlags::MS_BIND, "")?;
    if read_only {
        attach(None, to, None, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, "")?;
    }
    Ok(())
}

/// Mounts something.
pub fn attach(from: Option<&Path>, to: &Path, kind: Option<&str>, flags: MsFlags, options: &str) -> Result<()> {
    let options = (!options.is_empty()).then_some(options);
    mount(from, to, kind, flags, options).map_err(|errno| {
        let what = from.map_or_else(String::new, |from| format!("{} ", from.display()));
        Fault::io(format!("mount {what}on {}", to.display()), &errno.into())
    })
}

/// Runs a program of the machine to its end.
pub fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().attempt(|| format!("run {name}"))?;
    if done.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&done.stderr);
    Err(Fault::new(Code::System, format!("run {name}"), format!("{}: {}", done.status, text.trim())))
}
