//! Python with NVIDIA's packages (`nvidia-ml-py`, `cuda-bindings`): as an image for containers, and on a node itself.
//!
//! ```text
//! node.import_python();                                    // the image baton.test/python:1
//! node.run_detached(&["--env", "NVIDIA_VISIBLE_DEVICES=0"], PYTHON, "id", &["python3", "-c", "…"]);
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use baton_nodes::archive::{self, Image};
use serde_json::{Value, json};

use crate::machine::{DRIVER_ROOT, Machine};

/// The image. Its programs are `python3` and, from busybox, `sh`, `cat`, `ls` and `sleep`.
pub const PYTHON: &str = "baton.test/python:1";
/// Where Python lies on a node that has been given it.
const ROOT: &str = "/run/python";

/// The folder of a program that `integration/programs` builds, which it does here where nobody has done it before.
///
/// # Panics
/// With what it said, when it cannot be built.
pub fn program(name: &str) -> PathBuf {
    let builder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/programs");
    let done = Command::new(builder).arg(name).stderr(Stdio::piped()).output().expect("run integration/programs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    PathBuf::from(String::from_utf8_lossy(&done.stdout).trim_end())
}

/// The image as an archive, made once beside the layer.
fn image() -> PathBuf {
    let folder = program("python");
    let path = folder.join("image.tar");
    if !path.exists() {
        let layer = fs::read(folder.join("layer.tar")).expect("read the layer");
        let image = Image { name: PYTHON.to_owned(), config: json!({ "Cmd": ["python3"] }), layer: &layer };
        // Several tests may do this at once; each writes the same.
        let unique = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let part = folder.join(format!("image-{unique}"));
        archive::write(File::create(&part).expect("make an archive"), &[image]).expect("write an archive");
        fs::rename(&part, &path).expect("name the archive");
    }
    path
}

impl Machine {
    /// Imports the image with Python.
    ///
    /// # Panics
    /// When containerd does not take it.
    pub fn import_python(&self) {
        let archive = File::open(image()).expect("open the archive");
        let mut import = self.command(["ctr", "image", "import", "-"]);
        let done = import.stdin(archive).stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("run ctr");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Puts Python on the node itself, where programs see all that its driver shows.
    ///
    /// # Panics
    /// When it cannot be put there.
    pub fn install_python(&self) {
        self.import_python();
        let script = format!(
            "mkdir -p {ROOT} && ctr image mount --rw {PYTHON} {ROOT} >/dev/null && mkdir -p {ROOT}{DRIVER_ROOT} \
             && mount --bind {DRIVER_ROOT} {ROOT}{DRIVER_ROOT} && mount -t proc proc {ROOT}/proc"
        );
        self.ok(&["sh", "-c", &script]);
    }

    /// Runs a script on the node itself, as root and with the node's driver; the JSON that it has printed last.
    ///
    /// # Panics
    /// With what it printed, when it fails.
    pub fn python(&self, script: &str, arguments: &[&str]) -> Value {
        let libraries = format!("LD_LIBRARY_PATH={DRIVER_ROOT}/usr/lib/x86_64-linux-gnu");
        self.write(&format!("{ROOT}/script.py"), script);
        let line = ["env", &libraries, "chroot", ROOT, "python3", "/script.py"];
        printed(&self.ok(&[&line[..], arguments].concat()))
    }
}

/// The JSON in the last line.
///
/// # Panics
/// When it is none.
pub fn printed(text: &str) -> Value {
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|err| panic!("{err} in {text:?}"))
}
