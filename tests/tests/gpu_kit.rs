//! The kit for a real GPU runs in full on a bare machine: a root with a shell, a driver, the simulated one, the C library
//! that the driver's programs are linked to, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use baton_tests::programs::built;
use baton_tests::python::program;
use serde_json::Value;

/// Programs of a bare machine, all busybox: what `run` calls, and what the way into the root does.
const SHELL: &[&str] = &["sh", "dirname", "umount", "grep"];
/// Runs the kit as the words after the second say, and sends it the signal that the first names while a card is in MIG
/// mode, by as many processes later as the second says.
const STRIKE_WITH_MIG: &str = r#"
signal=$1 later=$2
shift 2
/baton-gpu-kit/run "$@" &
until grep -q '"mig": *true' /cards.json 2>/dev/null; do kill -0 $! || exit 9; done
while [ $later -gt 0 ]; do grep -q nothing /cards.json; later=$((later - 1)); done
kill -$signal $!
wait $!
"#;
/// Into the root, in mount, network and pid namespaces of its own: $1 is the root, $2 what plays the hardware, $3 a folder for
/// what is not the machine's, then the command.
const ENTER: &str = r#"
set -eu
root=$1 card=$2 beside=$3
shift 3
mount --make-rprivate /
mount -t proc proc /proc
mount --bind "$root" "$root"
if [ -n "$card" ]; then
    unshare --mount "$card" serve --root "$root" >"$beside/card" 2>&1 &
    until grep -q ready "$beside/card"; do kill -0 $!; sleep 0.02; done
    mkdir -p "$beside/proc"
    mount --bind "$root/proc" "$beside/proc"
fi
mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
mount -t proc proc "$root/proc"
if [ -n "$card" ]; then
    mount --bind "$beside/proc/driver" "$root/proc/driver"
    mount --bind "$beside/proc/devices" "$root/proc/devices"
fi
mount --rbind /sys "$root/sys"
mkdir -p "$root/dev/pts" "$root/dev/shm" "$root/dev/net"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -sf pts/ptmx "$root/dev/ptmx"
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0" "net/tun 10 200"; do
    set -- $node "$@"
    mknod -m 666 "$root/dev/$1" c "$2" "$3"
    shift 3
done
cd "$root"
pivot_root . .
exec /bin/sh -c 'umount -l . && cd / && exec "$@"' sh "$@"
"#;

/// A root in a folder; removed when dropped.
struct Bare {
    folder: PathBuf,
    card: Option<PathBuf>,
}

impl Bare {
    /// A machine with these cards, or without a driver, on which the kit was unpacked.
    fn with(name: &str, cards: Option<&str>) -> Bare {
        let folder = std::env::temp_dir().join(format!("baton-bare-{name}-{}", std::process::id()));
        let bare = Bare { folder, card: cards.map(|_| built("baton-sim-card")) };
        fs::create_dir_all(bare.root().join("bin")).expect("a folder");
        let busybox = baton_nodes::image::busybox().expect("busybox");
        fs::copy(busybox, bare.root().join("bin/busybox")).expect("busybox");
        SHELL.iter().for_each(|name| symlink("busybox", bare.root().join("bin").join(name)).expect("a link"));
        if let (Some(cards), Some(card)) = (cards, &bare.card) {
            let libraries = card.parent().expect("the folder of the build");
            let mut install = Command::new(card);
            install.args(["install", "--cards", cards, "--seed", name, "--root"]).arg(bare.root());
            succeed(install.arg("--libs").arg(libraries));
        }
        succeed(Command::new("tar").arg("-C").arg(bare.root()).arg("-xzf").arg(archive()));
        bare
    }

    fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Adds the libraries that the driver's programs are linked to.
    fn add_c_library(&self) {
        for program in ["nvidia-smi", "nvidia-cuda-mps-control"] {
            let listed = Command::new("ldd").arg(self.root().join("usr/bin").join(program)).output().expect("ldd");
            let text = String::from_utf8(listed.stdout).expect("text");
            let libraries: Vec<&str> =
                text.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':')).collect();
            assert!(libraries.iter().any(|path| path.ends_with("/libc.so.6")), "{text}");
            for library in libraries {
                let to = self.root().join(&library[1..]);
                fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
                fs::copy(library, to).expect("a library");
            }
        }
    }

    /// Runs the kit; how it ended, and its report.
    fn run(&self, options: &[&str]) -> (Output, Value) {
        self.enter(&[&["/baton-gpu-kit/run"], options].concat())
    }

    /// Runs a command on the machine that runs the kit.
    fn enter(&self, words: &[&str]) -> (Output, Value) {
        let mut command = Command::new("timeout");
        command.args([
            "480",
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            ENTER,
            "enter",
        ]);
        command.arg(self.root()).arg(self.card.as_deref().unwrap_or(Path::new(""))).arg(&self.folder);
        let done = command.args(words).output().expect("run the kit");
        let report = fs::read(self.root().join("baton-gpu-kit/report.json"));
        let report = report.unwrap_or_else(|err| panic!("{err}: {}", String::from_utf8_lossy(&done.stderr)));
        (done, serde_json::from_slice(&report).expect("JSON"))
    }

    /// No card is in MIG mode, by what the hardware has written down of them.
    fn cards_are_as_before(&self) {
        let cards = fs::read(self.root().join("cards.json")).expect("the state of the cards");
        for card in serde_json::from_slice::<Value>(&cards).expect("JSON").as_array().expect("cards") {
            assert_eq!((&card["settings"]["mig"], &card["instances"]), (&Value::Bool(false), &Value::Array(vec![])));
        }
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.root().join(folder))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn succeed(command: &mut Command) {
    let done = command.output().expect("start a program");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The archive, packed once, as `make gpu-kit` does.
fn archive() -> &'static Path {
    static ARCHIVE: OnceLock<PathBuf> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        let kit = built("baton-gpu-kit");
        let folder = kit.parent().expect("the folder of the build");
        let out = folder.join("gpu-kit-test.tar.gz");
        let root = baton_nodes::house::node_root().expect("the root of the nodes");
        let mut pack = Command::new(&kit);
        pack.arg("pack").arg(&out).arg("--bin").arg(folder).arg("--root").arg(root);
        succeed(pack.arg("--python").arg(program("python").join("layer.tar")));
        assert!(fs::metadata(&out).expect("the archive").len() <= 60 << 20);
        out
    })
}

/// What came of each check, with the reason.
fn outcomes(report: &Value) -> BTreeMap<&str, (&str, &str)> {
    report["checks"]
        .as_array()
        .expect("checks")
        .iter()
        .map(|check| {
            let (name, outcome) = (check["name"].as_str(), check["outcome"].as_str());
            let why = check["why"].as_str().unwrap_or_default();
            (name.expect("a name"), (outcome.expect("an outcome"), why))
        })
        .collect()
}

#[test]
fn on_a_bare_machine_with_two_cards_every_check_passes_and_nothing_is_left() {
    let bare = Bare::with("cards", Some("h100x2"));
    bare.add_c_library();
    let before = bare.files("baton-gpu-kit");
    let (done, report) = bare.run(&["--mig"]);
    let outcomes = outcomes(&report);
    let others: Vec<_> = outcomes.iter().filter(|(_, (outcome, _))| *outcome != "passed").collect();
    assert!(others.is_empty(), "{others:#?}\n{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(report["left"], serde_json::json!([]));
    assert!(done.status.success(), "{done:?}");
    let some = ["states", "mig-places", "mps-checkpoint", "python", "save-killed"];
    assert!(some.iter().all(|name| outcomes.contains_key(name)), "{outcomes:?}");
    assert!(report["seconds"].as_f64().expect("a number") < 480.0);
    let mut after = bare.files("baton-gpu-kit");
    after.retain(|name| !name.starts_with("report."));
    assert_eq!(after, before);
    let mut at_the_top = bare.files("");
    at_the_top.retain(|name| name != "cards.json");
    let known = ["baton-gpu-kit", "bin", "dev", "hardware.json", "lib", "lib64", "proc", "sys", "tmp", "usr"];
    assert_eq!(at_the_top, known);
    bare.cards_are_as_before();
    let text = fs::read_to_string(bare.root().join("baton-gpu-kit/report.txt")).expect("the readable report");
    assert!(text.contains("NVIDIA H100 80GB HBM3") && text.contains("0 failed"), "{text}");
}

#[test]
fn on_a_machine_without_a_driver_nothing_fails_and_the_report_says_why_nothing_was_tried() {
    let bare = Bare::with("none", None);
    let (done, report) = bare.run(&[]);
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    for (name, (outcome, why)) in outcomes(&report) {
        let untried =
            outcome == "cannot-run" && (why.contains("driver") || why.contains("nvidia") || why.contains("libcuda"));
        assert!(untried, "{name}: {outcome}: {why}");
    }
}

#[test]
fn where_the_machine_has_no_c_library_the_kits_own_does_and_what_needs_the_drivers_programs_cannot_run() {
    let bare = Bare::with("own-c-library", Some("a30"));
    let names = ["kernels", "counter", "mig-device", "mps-clients"];
    let (done, report) = bare.run(&names.map(|name| ["--only", name]).concat());
    assert!(done.status.success(), "{done:?}");
    let outcomes = outcomes(&report);
    assert_eq!(outcomes.len(), names.len());
    assert_eq!((outcomes["kernels"].0, outcomes["counter"].0), ("passed", "passed"), "{outcomes:?}");
    for (name, program) in [("mig-device", "nvidia-smi"), ("mps-clients", "nvidia-cuda-mps-control")] {
        let (outcome, why) = outcomes[name];
        assert!(outcome == "cannot-run" && why.contains(program), "{name}: {outcome}: {why}");
    }
}

#[test]
fn a_run_that_is_stopped_changes_back_what_it_has_changed_and_leaves_nothing() {
    let bare = Bare::with("stopped", Some("h100"));
    bare.add_c_library();
    let before = bare.files("baton-gpu-kit");
    for later in ["0", "10", "30", "100"] {
        let words = ["/bin/sh", "-c", STRIKE_WITH_MIG, "strike", "TERM", later, "--mig"];
        let (done, report) = bare.enter(&[&words[..], &["--only", "mig-places", "--only", "run"]].concat());
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        let stopped = ("cannot-run", "the run was stopped");
        assert_eq!(outcomes(&report), BTreeMap::from([("mig-places", stopped), ("run", stopped)]));
        assert_eq!(report["left"], serde_json::json!([]));
        bare.cards_are_as_before();
        let mut after = bare.files("baton-gpu-kit");
        after.retain(|name| !name.starts_with("report."));
        assert_eq!(after, before);
    }
}

#[test]
fn what_a_run_that_was_killed_has_left_is_cleared_by_the_next() {
    let bare = Bare::with("killed", Some("h100"));
    bare.add_c_library();
    let before = bare.files("baton-gpu-kit");
    let twice = format!(
        "{STRIKE_WITH_MIG}\n[ -e /baton-gpu-kit/scratch-* ] || exit 8\nexec /baton-gpu-kit/run --only device-nodes"
    );
    let words = ["/bin/sh", "-c", &twice, "strike", "KILL", "0", "--mig", "--only", "mig-places"];
    let (done, report) = bare.enter(&words);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(outcomes(&report), BTreeMap::from([("device-nodes", ("passed", ""))]));
    bare.cards_are_as_before();
    let mut after = bare.files("baton-gpu-kit");
    after.retain(|name| !name.starts_with("report."));
    assert_eq!(after, before);
    assert_eq!(bare.files("tmp"), Vec::<String>::new());
}
