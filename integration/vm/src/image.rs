//! The disk of the machines: the root of the test nodes, Baton, the kernel's modules and the job's image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_fault::{Attempt, Code, Fault, Result};
use baton_nodes::{house, image, product, rootfs};
use tempfile::TempDir;

/// The first process.
const INIT: &str = include_str!("../files/init");
/// Baton's programs.
/// Size of the file system; what is not written takes no room.
const SIZE: &str = "3000M";

/// A disk that several machines start from, and none changes.
pub struct Image {
    folder: TempDir,
}

impl Image {
    /// Makes it.
    ///
    /// # Errors
    /// `FILE` when something that goes into it is not there.
    pub fn make() -> Result<Image> {
        let cache = house::cache();
        let folder = TempDir::new_in(&cache).attempt(|| format!("make a folder in {}", cache.display()))?;
        let image = Image { folder };
        let root = image.folder.path().join("root");
        copy(&[&house::node_root()?.join(".")], &root)?;
        copy(&[&kernel().join("modules/lib/modules")], &root.join("usr/lib"))?;
        let own = std::env::current_exe().attempt(|| "find the own program")?;
        let built = own.parent().unwrap_or(Path::new("/"));
        let bin = root.join("usr/local/bin");
        fs::create_dir_all(&bin).attempt(|| format!("make {}", bin.display()))?;
        copy(&product::PROGRAMS.map(|name| product::program(built, name)).each_ref().map(PathBuf::as_path), &bin)?;
        copy(&[Path::new("/bin/busybox")], &root.join("usr/bin"))?;
        let archive = image::archive(built)?.ok_or_else(|| {
            Fault::new(Code::File, "find the image of the job", "its program is not built").advise("run make build")
        })?;
        copy(&[&archive], &root.join("images.tar"))?;
        write(&root.join("etc/hosts"), "127.0.0.1 localhost\n")?;
        write(&root.join("init"), INIT)?;
        rootfs::run(Command::new("chmod").arg("755").arg(root.join("init")))?;
        let make = ["-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d"];
        rootfs::run(Command::new("mke2fs").args(make).arg(&root).arg(image.disk()).arg(SIZE))?;
        fs::remove_dir_all(&root).attempt(|| format!("remove {}", root.display()))?;
        Ok(image)
    }

    /// The disk.
    pub fn disk(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// A folder for sockets, gone with the image.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Where `integration/vm/kernel` put the kernel.
pub fn kernel() -> PathBuf {
    house::cache().join("kernel")
}

fn copy(from: &[&Path], to: &Path) -> Result<()> {
    if let Some(missing) = from.iter().find(|path| !path.exists()) {
        return Err(Fault::new(Code::File, format!("copy {}", missing.display()), "it is not there")
            .advise("run make test-vm, which makes it"));
    }
    rootfs::run(Command::new("cp").arg("-a").args(from).arg(to))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).attempt(|| format!("write {}", path.display()))
}
