//! A simulated machine for one test: a driver root, the hardware, counters, and a caller of the checkpoint API.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod api;
pub mod by_handle;
pub mod counter;
mod driver;
pub mod player;

use std::ffi::CString;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use counter::Counter;
pub use driver::Driver;

/// Longer than anything here takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Where cargo puts programs and libraries; builds those of the neighbouring packages first.
pub fn built() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = std::env::current_exe().expect("own path");
        let folder = test.parent().and_then(Path::parent).expect("target/PROFILE/deps").to_owned();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--manifest-path"]).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        cargo.args([
            "-p",
            "baton-sim-card",
            "-p",
            "baton-sim-cuda",
            "-p",
            "baton-sim-nvml",
            "-p",
            "baton-sim-mps",
            "-p",
            "baton-counter",
        ]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let target = folder.parent().expect("target");
        assert!(cargo.env("CARGO_TARGET_DIR", target).status().expect("cargo").success(), "cargo build");
        folder
    })
}

/// A child that is killed when the test ends.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A machine with cards.
pub struct Machine {
    folder: tempfile::TempDir,
    driver: String,
    hardware: Option<Killed>,
}

/// A machine, and its driver loaded into the test, with a context on the first card.
pub fn open(cards: &str) -> (Machine, api::Api, api::Handle) {
    let machine = Machine::with(cards);
    let api = api::Api::load(&machine.library());
    let context = api.open();
    (machine, api, context)
}

impl Machine {
    /// Installs a root and starts the hardware.
    pub fn with(cards: &str) -> Machine {
        Machine::with_driver(cards, "580.95.05")
    }

    /// One with a driver of that version.
    pub fn with_driver(cards: &str, driver: &str) -> Machine {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path().join("root");
        let mut install = Command::new(built().join("baton-sim-card"));
        install.args(["install", "--cards", cards, "--seed", "test", "--driver", driver]);
        assert!(install.arg("--root").arg(&root).arg("--libs").arg(built()).status().expect("install").success());
        let mut machine = Machine { folder, driver: driver.to_owned(), hardware: None };
        machine.start();
        machine
    }

    /// Starts the hardware.
    pub fn start(&mut self) {
        let mut serve = Command::new(built().join("baton-sim-card"));
        let serve = serve.arg("serve").arg("--root").arg(self.root()).stdout(Stdio::piped()).spawn().expect("serve");
        let mut hardware = Killed(serve);
        let mut line = String::new();
        BufReader::new(hardware.0.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready"), "{line:?}");
        self.hardware = Some(hardware);
    }

    /// Ends the hardware without a word.
    pub fn kill(&mut self) {
        drop(self.hardware.take());
    }

    /// Runs a verb of the hardware's program on this machine's root.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut verb = Command::new(built().join("baton-sim-card"));
        verb.args(arguments).arg("--root").arg(self.root()).output().expect("it runs")
    }

    /// The driver root.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// The hardware's socket.
    pub fn socket(&self) -> PathBuf {
        self.root().join("lib/firmware/nvidia").join(&self.driver).join("gsp_ga10x.bin")
    }

    /// The driver's library.
    pub fn library(&self) -> String {
        self.root().join("usr/lib/x86_64-linux-gnu/libcuda.so.1").to_str().expect("a plain path").to_owned()
    }

    /// Starts a counter that has counted a little when this returns.
    pub fn counter(&self, arguments: &[&str]) -> Counter {
        let socket = self.folder.path().join("counter.sock");
        let mut run = Command::new(built().join("baton-counter"));
        run.env("LD_LIBRARY_PATH", self.root().join("usr/lib/x86_64-linux-gnu"));
        run.args(["--interval-ms", "1"]).args(arguments).arg("--socket").arg(&socket);
        let mut child = Killed(run.stdout(Stdio::piped()).spawn().expect("counter"));
        let mut out = BufReader::new(child.0.stdout.take().expect("piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        // The value for 100 steps, computed apart from this program.
        assert_eq!(line, "step 100 checksum 5abe7b211e1487d4\n");
        std::thread::spawn(move || out.lines().for_each(drop));
        Counter::of(child, socket)
    }

    /// Gives the hardware an order.
    pub fn order(&self, order: &str) {
        let done = self.run(&["order", order]);
        assert!(done.status.success(), "{done:?}");
    }

    /// The books; they must balance.
    pub fn books(&self) -> Vec<Used> {
        let (balanced, books, text) = self.look();
        assert!(balanced, "the books do not balance: {text}");
        books
    }

    /// Whether the books balance, and what they say.
    fn look(&self) -> (bool, Vec<Used>, String) {
        let output = self.run(&["books"]);
        let text = String::from_utf8(output.stdout).expect("text");
        let books: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let cards = books["cards"].as_array().expect("cards").iter();
        let used = cards
            .map(|card| Used {
                uuid: card["card"]["uuid"].as_str().expect("uuid").to_owned(),
                bytes: card["used"].as_u64().expect("used"),
            })
            .collect();
        (output.status.success(), used, text)
    }

    /// Waits until nothing is held of any card and the books balance. A process that has just died holds what it held
    /// until the hardware has heard of its end.
    pub fn wait_until_empty(&self) {
        self.wait_until_each_holds(0);
    }

    /// Waits until that many bytes are held of each card and the books balance.
    pub fn wait_until_each_holds(&self, bytes: u64) {
        let start = Instant::now();
        loop {
            let (balanced, books, text) = self.look();
            if balanced && books.iter().all(|card| card.bytes == bytes) {
                return;
            }
            assert!(start.elapsed() < DEADLINE, "not what is waited for is held: {text}");
            std::thread::yield_now();
        }
    }

    /// Loads the driver into the test, as an agent does.
    pub fn driver(&self) -> Driver {
        let library = self.root().join("usr/lib/x86_64-linux-gnu/libcuda.so.1");
        let name = CString::new(library.as_os_str().as_bytes()).expect("path");
        // SAFETY: loading the library runs its initialisers only.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE) };
        assert!(!handle.is_null(), "dlopen {}", library.display());
        Driver::of(handle)
    }
}

/// How much of a card is held.
#[derive(Debug)]
pub struct Used {
    pub uuid: String,
    pub bytes: u64,
}
