//! The images that every node has, as one OCI archive: `localhost/baton/counter:1`, with the workloads, the
//! libraries that it needs and a static busybox, and `localhost/baton/pause:1`, for the first container of a pod. They
//! share their one layer, which is thus unpacked once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_fault::{Attempt, Code, Fault, Result};
use serde_json::json;

use crate::archive::{self, Image, Layer};
use crate::house;

/// Name of the image of the counter.
pub const NAME: &str = "localhost/baton/counter:1";
/// Name of the image of a pod's first container.
pub const PAUSE: &str = "localhost/baton/pause:1";
/// The images, each with what it runs.
const IMAGES: &[(&str, &str)] = &[(NAME, "/counter"), (PAUSE, "/pause")];
/// The programs in them, and what they are called where they are built.
const PROGRAMS: &[(&str, &str)] =
    &[("/counter", "baton-counter"), ("/pause", "baton-pause"), ("/workload", "baton-workload")];
/// What goes in from the building machine, at the same path.
const LIBRARIES: &[&str] = &[
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libm.so.6",
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
];
/// Names under which busybox is found.
pub const APPLETS: &[&str] = &[
    "sh", "cat", "ls", "sleep", "true", "false", "mknod", "touch", "echo", "dd", "env", "ps", "kill", "head", "id",
    "mount", "hostname", "rm", "mkdir", "grep", "stat", "date", "ping", "readlink", "tty", "tar",
];
/// The accounts in an image; some cases of the conformance suite ask for these names.
const ACCOUNTS: &str = "\
root:x:0:0:root:/:/bin/sh
www-data:x:33:33:www-data:/:/bin/false
default-user:x:1000:1000::/:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
";
/// Its groups.
const GROUPS: &str = "\
root:x:0:
www-data:x:33:
users:x:100:
default-user:x:1000:
group-defined-in-image:x:50000:default-user
nogroup:x:65534:
";
/// How long an archive is kept once there is a newer one.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Raised when the archive's layout changes.
const RECIPE: &str = "4";

/// The archive, made if there is none of the present programs; none when they are not built.
pub fn archive(bin: &Path) -> Result<Option<PathBuf>> {
    if let Some((_, absent)) = PROGRAMS.iter().find(|(_, built)| !bin.join(built).exists()) {
        eprintln!("node: no {}, so no image {NAME}; run make build", bin.join(absent).display());
        return Ok(None);
    }
    let parts = parts(bin)?;
    let what_is_in_it: String =
        parts.iter().map(|part| format!("{} {}\n", part.path, archive::digest(&part.bytes))).collect();
    let key = archive::digest(format!("{RECIPE}\n{what_is_in_it}").as_bytes());
    let path = house::cache().join(format!("counter-{}.tar", &key[..16]));
    if !path.exists() {
        let written = path.with_extension(format!("part-{}", std::process::id()));
        write(&written, &parts).attempt(|| format!("write {}", written.display()))?;
        fs::rename(&written, &path).attempt(|| format!("write {}", path.display()))?;
        forget_old();
    }
    Ok(Some(path))
}

/// Removes archives of programs that were built more than a day ago: no start can be reading them.
fn forget_old() {
    for entry in fs::read_dir(house::cache()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| name.starts_with("counter-"));
        let age = entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
        if ours && age.is_some_and(|age| age > KEPT) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A program or library of an image.
pub struct Part {
    path: String,
    bytes: Vec<u8>,
}

fn parts(bin: &Path) -> Result<Vec<Part>> {
    let mut parts = system()?;
    for (path, built) in PROGRAMS {
        parts.push(part(&bin.join(built), path)?);
    }
    Ok(parts)
}

/// What every image here has: busybox, and what a program built on this machine needs to run.
pub fn system() -> Result<Vec<Part>> {
    let mut parts = vec![part(busybox()?, "/bin/busybox")?];
    for library in LIBRARIES {
        parts.push(part(Path::new(library), library)?);
    }
    Ok(parts)
}

/// The machine's static busybox.
pub fn busybox() -> Result<&'static Path> {
    let mut places = ["/bin/busybox", "/usr/bin/busybox"].into_iter().map(Path::new);
    places
        .find(|path| path.exists())
        .ok_or_else(|| Fault::new(Code::File, "find busybox", "there is none").advise("run integration/setup"))
}

fn part(from: &Path, path: &str) -> Result<Part> {
    let bytes = fs::read(from)
        .attempt(|| format!("read {} for an image", from.display()))
        .map_err(|fault| fault.advise("run integration/setup"))?;
    Ok(Part { path: path.trim_start_matches('/').to_owned(), bytes })
}

fn write(path: &Path, parts: &[Part]) -> std::io::Result<()> {
    let layer = layer(parts)?.finish()?;
    let image = |(name, entry): &(&str, &str)| Image {
        name: (*name).to_owned(),
        config: json!({ "Entrypoint": [entry], "Env": ["PATH=/bin:/usr/bin:/"], "WorkingDir": "/" }),
        layer: &layer,
    };
    let images: Vec<Image> = IMAGES.iter().map(image).collect();
    archive::write(File::create(path)?, &images)?.sync_all()
}

/// A layer with these parts, and the folders, links and accounts of a small system. More may be added.
pub fn layer(parts: &[Part]) -> std::io::Result<Layer> {
    let mut layer = Layer::default();
    for (dir, mode) in [
        ("bin", 0o755),
        ("dev", 0o755),
        ("etc", 0o755),
        ("lib", 0o755),
        ("lib/x86_64-linux-gnu", 0o755),
        ("lib64", 0o755),
        ("proc", 0o755),
        ("run", 0o755),
        ("sys", 0o755),
        ("tmp", 0o1777),
        ("usr", 0o755),
        ("usr/bin", 0o755),
        ("usr/lib", 0o755),
        ("usr/lib/x86_64-linux-gnu", 0o755),
        ("var", 0o755),
    ] {
        layer.folder(dir, mode)?;
    }
    for part in parts {
        layer.file(&part.path, 0o755, &part.bytes)?;
    }
    layer.file("etc/passwd", 0o644, ACCOUNTS.as_bytes())?;
    layer.file("etc/group", 0o644, GROUPS.as_bytes())?;
    for applet in APPLETS {
        layer.link(&format!("bin/{applet}"), "bin/busybox")?;
    }
    Ok(layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_is_the_same_every_time_and_holds_the_counter() {
        let parts = || [Part { path: "counter".to_owned(), bytes: vec![7; 10] }];
        let bytes = || layer(&parts()).and_then(Layer::finish).expect("a layer");
        let one = bytes();
        assert_eq!(one, bytes());
        let mut archive = tar::Archive::new(one.as_slice());
        let found = archive.entries().expect("entries").flatten().any(|entry| {
            entry.path().is_ok_and(|path| path == Path::new("counter"))
                && entry.header().mode().is_ok_and(|mode| mode == 0o755)
        });
        assert!(found);
    }
}
