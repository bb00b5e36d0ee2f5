//! The image with the Python job: Python, NVIDIA's `cuda-bindings` and what they need, without what they do not.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_nodes::archive::{self, Image};
use serde_json::json;

use super::{copy, make, run};
use crate::suite::{PYTHON, PYTHON_JOB};

/// What the job does without, as patterns of tar: other bindings of the package, what they are compiled from, modules of
/// Python's own, and the libraries of those.
const WITHOUT: &[&str] = &[
    "*/bindings/_v2",
    "*/bindings/*runtime*",
    "*/bindings/*/nv*",
    "*/bindings/cynv*",
    "*/bindings/nv*",
    "*/bindings/*cu[df][li]*",
    "*.p[xy][dx]",
    "*/pynvml.py",
    "*/python3.*/asyncio",
    "*/python3.*/email",
    "*/python3.*/http",
    "*/python3.*/sqlite3",
    "*/python3.*/unittest",
    "*/python3.*/xml",
    "*/lib-dynload/_codecs*",
    "*/lib-dynload/_curses*",
    "*/lib-dynload/_sqlite3*",
    "*/lib-dynload/_ssl*",
    "*/lib-dynload/_test*",
    "*/lib-dynload/readline*",
    "*/libcrypto.so*",
    "*/libdb-*",
    "*/libmvec.so*",
    "*/libncurses*",
    "*/libreadline*",
    "*/libsqlite3*",
    "*/libssl.so*",
    "*/libtinfo*",
];
/// The program and its kernels, beside which it looks for them.
const JOB: &[&str] = &["python/count.py", "kernels/baton.ptx"];

/// Makes the archive in `work`, of a root with Python that is packed as `layer`.
pub fn archive_of_image(layer: &Path, work: &Path) -> Result<PathBuf, String> {
    let (root, small, path) = (work.join("python"), work.join("python-layer.tar"), work.join("python.tar"));
    make(&root)?;
    let without = WITHOUT.iter().map(|pattern| format!("--exclude={pattern}"));
    run(Command::new("tar").arg("-C").arg(&root).arg("--wildcards").args(without).arg("-xf").arg(layer))?;
    for file in JOB {
        let from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads")).join(file);
        copy(&from, &root.join(from.file_name().unwrap_or_default()))?;
    }
    run(Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-C"])
        .arg(&root)
        .arg("-cf")
        .arg(&small)
        .arg("."))?;
    let layer = fs::read(&small).map_err(|err| format!("read {}: {err}", small.display()))?;
    let image = Image { name: PYTHON.to_owned(), config: json!({ "Entrypoint": PYTHON_JOB }), layer: &layer };
    let file = File::create(&path).map_err(|err| format!("make {}: {err}", path.display()))?;
    archive::write(file, &[image]).map_err(|err| format!("write {}: {err}", path.display()))?;
    Ok(path)
}
