//! A simulated machine for one test: a driver root, the hardware, counters, and a caller of the checkpoint API.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod api;
pub mod player;

use std::ffi::{CString, c_void};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Where cargo puts programs and libraries; builds those of the neighbouring packages first.
fn built() -> &'static Path {
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
    _hardware: Killed,
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
        let mut serve = Command::new(built().join("baton-sim-card"));
        let serve = serve.arg("serve").arg("--root").arg(&root).stdout(Stdio::piped()).spawn().expect("serve");
        let mut hardware = Killed(serve);
        let mut line = String::new();
        BufReader::new(hardware.0.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready"), "{line:?}");
        Machine { folder, driver: driver.to_owned(), _hardware: hardware }
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
        Counter { child, socket }
    }

    /// Gives the hardware an order.
    pub fn order(&self, order: &str) {
        let mut verb = Command::new(built().join("baton-sim-card"));
        assert!(verb.arg("order").arg(order).arg("--root").arg(self.root()).status().expect("order").success());
    }

    /// The books; they must balance.
    pub fn books(&self) -> Vec<Used> {
        let (balanced, books, text) = self.look();
        assert!(balanced, "the books do not balance: {text}");
        books
    }

    /// Whether the books balance, and what they say.
    fn look(&self) -> (bool, Vec<Used>, String) {
        let mut verb = Command::new(built().join("baton-sim-card"));
        let output = verb.arg("books").arg("--root").arg(self.root()).output().expect("books");
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
        Driver { handle }
    }
}

/// How much of a card is held.
#[derive(Debug)]
pub struct Used {
    pub uuid: String,
    pub bytes: u64,
}

/// A running counter.
pub struct Counter {
    pub child: Killed,
    socket: PathBuf,
}

/// What `status` printed, and whether it found all right.
#[derive(Debug)]
pub struct Status {
    pub step: u64,
    pub gpu: String,
    pub right: bool,
}

impl Counter {
    pub fn pid(&self) -> i32 {
        self.child.0.id() as i32
    }

    /// Runs `status` or `wait STEP`.
    pub fn ask(&self, question: &[&str]) -> Status {
        let mut ask = Command::new(built().join("baton-counter"));
        let output = ask.args(question).arg("--socket").arg(&self.socket).output().expect("status");
        let text = String::from_utf8(output.stdout).expect("text");
        let answer: serde_json::Value = serde_json::from_str(&text).expect("one line of JSON");
        assert!(text.starts_with("{\"step\":"), "{text}");
        Status {
            step: answer["step"].as_u64().expect("step"),
            gpu: answer["gpu"].as_str().unwrap_or("null").to_owned(),
            right: output.status.success() && answer["checksum"] == answer["expected"],
        }
    }

    /// What the process has open and mapped of the hardware: card memory, or a connection.
    pub fn traces(&self) -> Vec<String> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("maps");
        let mut traces: Vec<String> = maps.lines().filter(|line| line.contains("/memfd:")).map(str::to_owned).collect();
        let connections = std::fs::read_to_string("/proc/net/unix").expect("sockets");
        for entry in std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("fds").flatten() {
            let Ok(target) = std::fs::read_link(entry.path()) else { continue };
            let target = target.to_string_lossy().into_owned();
            let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
            // State 03 is connected; the counter's own listening socket is 01.
            let connected = inode.is_some_and(|inode| {
                connections
                    .lines()
                    .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
                    .any(|line| line.len() > 6 && line[6] == inode && line[5] == "03")
            });
            if connected || target.contains("memfd") {
                traces.push(target);
            }
        }
        traces
    }
}

/// The driver, loaded into the test.
#[derive(Clone, Copy)]
pub struct Driver {
    handle: *mut c_void,
}

// SAFETY: the library stays loaded, and its functions may be called from any thread.
unsafe impl Send for Driver {}

impl Driver {
    /// A function by name.
    pub fn function(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).expect("name");
        // SAFETY: the handle is open and never closed.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    }

    fn process_call(&self, name: &str, pid: i32, args: &[u8; 64]) -> i32 {
        // SAFETY: the cuCheckpointProcess… functions with args have this signature.
        let call: unsafe extern "C" fn(i32, *const [u8; 64]) -> i32 =
            unsafe { std::mem::transmute(self.function(name)) };
        // SAFETY: a whole block of args.
        unsafe { call(pid, args) }
    }

    pub fn lock(&self, pid: i32, timeout_ms: u32) -> i32 {
        let mut args = [0u8; 64];
        args[..4].copy_from_slice(&timeout_ms.to_ne_bytes());
        self.process_call("cuCheckpointProcessLock", pid, &args)
    }

    pub fn checkpoint(&self, pid: i32) -> i32 {
        self.process_call("cuCheckpointProcessCheckpoint", pid, &[0; 64])
    }

    pub fn unlock(&self, pid: i32) -> i32 {
        self.process_call("cuCheckpointProcessUnlock", pid, &[0; 64])
    }

    /// Restores with a map of (old, new) UUIDs; empty for none.
    pub fn restore(&self, pid: i32, map: &[(&str, &str)]) -> i32 {
        let pairs: Vec<[[u8; 16]; 2]> = map.iter().map(|(old, new)| [uuid(old), uuid(new)]).collect();
        let mut args = [0u8; 64];
        if !pairs.is_empty() {
            args[..8].copy_from_slice(&(pairs.as_ptr() as u64).to_ne_bytes());
            args[8..12].copy_from_slice(&(pairs.len() as u32).to_ne_bytes());
        }
        self.process_call("cuCheckpointProcessRestore", pid, &args)
    }

    /// Result and state.
    pub fn state(&self, pid: i32) -> (i32, u32) {
        let mut state = u32::MAX;
        // SAFETY: the signature of that function.
        let call: unsafe extern "C" fn(i32, *mut u32) -> i32 =
            unsafe { std::mem::transmute(self.function("cuCheckpointProcessGetState")) };
        // SAFETY: a place for the state.
        (unsafe { call(pid, &raw mut state) }, state)
    }

    pub fn thread(&self, pid: i32) -> (i32, i32) {
        let mut tid = 0;
        // SAFETY: the signature of that function.
        let call: unsafe extern "C" fn(i32, *mut i32) -> i32 =
            unsafe { std::mem::transmute(self.function("cuCheckpointProcessGetRestoreThreadId")) };
        // SAFETY: a place for the tid.
        (unsafe { call(pid, &raw mut tid) }, tid)
    }

    /// Becomes a neighbour: a context on the first card and that much memory of it. The pointer comes back.
    pub fn take(&self, bytes: usize) -> u64 {
        let (mut context, mut pointer) = (0usize, 0u64);
        // SAFETY: the signatures of the driver API, and places for what comes back.
        unsafe {
            let init: unsafe extern "C" fn(u32) -> i32 = std::mem::transmute(self.function("cuInit"));
            let retain: unsafe extern "C" fn(*mut usize, i32) -> i32 =
                std::mem::transmute(self.function("cuDevicePrimaryCtxRetain"));
            let current: unsafe extern "C" fn(usize) -> i32 = std::mem::transmute(self.function("cuCtxSetCurrent"));
            let allocate: unsafe extern "C" fn(*mut u64, usize) -> i32 =
                std::mem::transmute(self.function("cuMemAlloc_v2"));
            assert_eq!(init(0), 0);
            assert_eq!(retain(&raw mut context, 0), 0);
            assert_eq!(current(context), 0);
            assert_eq!(allocate(&raw mut pointer, bytes), 0);
        }
        pointer
    }

    /// Gives the memory back.
    pub fn free(&self, pointer: u64) {
        // SAFETY: the signature of that function.
        let free: unsafe extern "C" fn(u64) -> i32 = unsafe { std::mem::transmute(self.function("cuMemFree_v2")) };
        // SAFETY: any number may be given.
        assert_eq!(unsafe { free(pointer) }, 0);
    }
}

fn uuid(text: &str) -> [u8; 16] {
    let digits: String = text.trim_start_matches("GPU-").chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).expect("a UUID").to_be_bytes()
}
