//! Packing the kit.
//!
//! ```text
//! baton-gpu-kit/
//!   run            starts it
//!   bin/           Baton's programs, containerd, ctr, criu, runc, busybox, the workloads, the runner
//!   lib/           the loader and libraries of criu and runc, which other programs use where the machine's are too old
//!   own/           what Baton's programs need beside the machine's C library
//!   image.tar      the image of the suite's containers
//!   python.tar     that of the Python job
//! ```
//! In each program its loader and its libraries are named as they are found in the bed ([`crate::kit`]).

mod python;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_nodes::{image, product};

use crate::kit::{IN_BED, OWN_IN_BED};

/// The name of the folder in the archive.
const FOLDER: &str = "baton-gpu-kit";
/// What an archive may have at most, in bytes.
const SIZE_MAX: u64 = 60 << 20;
/// Built here: they load the driver's libraries, so they run on the machine's C library where that will do.
const OWN: &[&str] = &["baton-workload", "baton-gpu-kit"];
/// Of the nodes' root: they load nothing of the driver's. CRIU packs the content of a tmpfs by tar and gzip.
const TOOLS: &[&str] =
    &["/usr/bin/containerd", "/usr/bin/ctr", "/usr/sbin/criu", "/usr/sbin/runc", "/usr/bin/tar", "/usr/bin/gzip"];
/// Beside the C library, for Baton's programs.
const OWN_LIBRARIES: &[&str] = &["libgcc_s.so.1", "libseccomp.so.2"];
/// For those programs where the machine's C library will not do.
const C_LIBRARIES: &[&str] =
    &["ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"];
/// Where libraries lie on Debian.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Packs what `bin` (the folder of the release build), `root` (that of the test nodes) and `python` (the layer of the
/// image with Python) have into `out`.
pub fn pack(out: &Path, bin: &Path, root: &Path, python: &Path) -> Result<(), String> {
    let work = tempfile::tempdir().map_err(|err| format!("make a folder: {err}"))?;
    let kit = work.path().join(FOLDER);
    for folder in ["bin", "lib", "own"] {
        make(&kit.join(folder))?;
    }
    copy(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/run")), &kit.join("run"))?;
    programs(&kit, bin, root)?;
    libraries(&kit, root)?;
    copy(&archive_of_image(bin, work.path())?, &kit.join("image.tar"))?;
    copy(&python::archive_of_image(python, work.path())?, &kit.join("python.tar"))?;
    if let Some(folder) = out.parent() {
        make(folder)?;
    }
    // gzip, which any machine unpacks.
    run(Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--mtime=@0", "-C"])
        .arg(work.path())
        .args(["-I", "gzip -9n", "-cf"])
        .arg(out)
        .arg(FOLDER))?;
    let size = fs::metadata(out).map_err(|err| format!("look at {}: {err}", out.display()))?.len();
    println!("{}: {:.1} MiB", out.display(), size as f64 / f64::from(1 << 20));
    if size > SIZE_MAX { Err(format!("it may have {} MiB at most", SIZE_MAX >> 20)) } else { Ok(()) }
}

fn programs(kit: &Path, bin: &Path, root: &Path) -> Result<(), String> {
    let built = OWN.iter().map(|name| bin.join(name));
    for from in product::PROGRAMS.iter().map(|name| product::program(bin, name)).chain(built) {
        let to = bin_of(kit, &from);
        copy(&from, &to)?;
        run(Command::new("strip").arg(&to))?;
        name_libraries(&to, &format!("{OWN_IN_BED}/ld.so"), &format!("{OWN_IN_BED}/lib"))?;
    }
    for tool in TOOLS {
        let to = bin_of(kit, Path::new(tool));
        copy(&real(root, tool)?, &to)?;
        name_libraries(&to, &format!("{IN_BED}/lib/ld-linux-x86-64.so.2"), &format!("{IN_BED}/lib"))?;
    }
    let busybox = image::busybox().map_err(|fault| fault.to_string())?;
    copy(busybox, &kit.join("bin/busybox"))
}

fn bin_of(kit: &Path, from: &Path) -> PathBuf {
    kit.join("bin").join(from.file_name().unwrap_or_default())
}

fn name_libraries(program: &Path, loader: &str, libraries: &str) -> Result<(), String> {
    run(Command::new("patchelf")
        .args(["--set-interpreter", loader, "--force-rpath", "--set-rpath", libraries])
        .arg(program))
}

/// A file of another root, links followed there.
fn real(root: &Path, path: &str) -> Result<PathBuf, String> {
    let mut path = PathBuf::from(path);
    for _ in 0..8 {
        let outside = root.join(path.strip_prefix("/").unwrap_or(&path));
        match fs::read_link(&outside) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return Ok(outside),
        }
    }
    Err(format!("{} is a link to a link to a link", path.display()))
}

/// All that the tools ask for, from the root that they come from; and what Baton's ask for beside the C library, from the
/// machine that built them.
fn libraries(kit: &Path, root: &Path) -> Result<(), String> {
    for tool in TOOLS {
        let listed = Command::new("chroot").arg(root).args(["/lib64/ld-linux-x86-64.so.2", "--list", tool]).output();
        let listed = listed.map_err(|err| format!("start chroot: {err}"))?;
        for path in String::from_utf8_lossy(&listed.stdout).lines().filter_map(|line| line.split(" => ").nth(1)) {
            let path = path.split(' ').next().unwrap_or_default();
            let to = kit.join("lib").join(Path::new(path).file_name().unwrap_or_default());
            if !to.exists() {
                copy(&real(root, path)?, &to)?;
            }
        }
    }
    for name in C_LIBRARIES.iter().chain(OWN_LIBRARIES) {
        let from = real(root, &format!("/{LIBRARIES}/{name}"))?;
        if from.exists() {
            copy(&from, &kit.join("lib").join(name))?;
        }
    }
    for name in OWN_LIBRARIES {
        copy(&Path::new("/").join(LIBRARIES).join(name), &kit.join("own").join(name))?;
    }
    Ok(())
}

/// The nodes' image, of stripped programs.
fn archive_of_image(bin: &Path, work: &Path) -> Result<PathBuf, String> {
    let stripped = work.join("stripped");
    make(&stripped)?;
    for name in ["baton-counter", "baton-pause", "baton-workload"] {
        copy(&bin.join(name), &stripped.join(name))?;
        run(Command::new("strip").arg(stripped.join(name)))?;
    }
    image::archive(&stripped)
        .map_err(|fault| fault.to_string())?
        .ok_or_else(|| "the workloads are not built; run make build".to_owned())
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|err| format!("make {}: {err}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map_err(|err| format!("copy {} to {}: {err}", from.display(), to.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).map_err(|err| format!("chmod {}: {err}", to.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|err| format!("start {name}: {err}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{name}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim()))
}
