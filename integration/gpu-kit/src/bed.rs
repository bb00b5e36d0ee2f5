//! The bed: namespaces, a root and a containerd of the kit's own, in which the checks of the suite run.
//!
//! The machine's process ids are kept, as on a node. All processes are in cgroups of the kit's own, by which they are
//! ended.

use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_nodes::cgroup;
use serde::{Deserialize, Serialize};

use crate::check::Word;
use crate::kit::{self, IN_BED};
use crate::{checks, child, root};

/// Longest wait for containerd.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// Without the parts that need more than a bare machine has.
const CONTAINERD: &str = r#"version = 3
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
    "io.containerd.podsandbox.controller.v1.podsandbox", "io.containerd.nri.v1.nri"]
"#;
/// Where containerd's log is, in the bed.
const LOG: &str = "/var/log/containerd.log";

/// What the bed says on its standard output for each check, as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line {
    /// The check.
    pub name: String,
    /// What came of it.
    pub word: Word,
    /// How long it took.
    pub seconds: f64,
}

/// `bed NAME…`: makes the bed and runs these checks in it.
pub fn run(names: &[&str]) -> Result<(), String> {
    let seconds = std::env::var("BATON_KIT_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(480);
    let end = Instant::now() + Duration::from_secs(seconds);
    let scratch = scratch()?;
    let mut daemon = make(&scratch)?;
    for name in names {
        let check = checks::find(name)?;
        let (word, took) = child::run(check, end.saturating_duration_since(Instant::now()));
        let line = Line { name: (*name).to_owned(), word, seconds: took.as_secs_f64() };
        println!("{}", serde_json::to_string(&line).map_err(|err| err.to_string())?);
    }
    let _ = daemon.kill();
    let _ = daemon.wait();
    Ok(())
}

/// The folder of this run, which the runner has made and removes.
fn scratch() -> Result<PathBuf, String> {
    std::env::var_os("BATON_KIT_SCRATCH").map(PathBuf::from).ok_or_else(|| "BATON_KIT_SCRATCH is not set".to_owned())
}

fn make(scratch: &Path) -> Result<Child, String> {
    let kit = kit::folder()?;
    let (loader, libraries) = kit::chosen().ok_or("BATON_KIT_LOADER is not set")?;
    let id = std::env::var("BATON_KIT_ID").map_err(|_| "BATON_KIT_ID is not set".to_owned())?;
    let places = places(&id)?;
    cgroup::make(&places).and_then(|()| cgroup::join(&places)).map_err(|fault| fault.to_string())?;
    root::enter(&kit, scratch, &loader, &libraries).map_err(|fault| fault.to_string())?;
    // SAFETY: this process has one thread.
    unsafe {
        std::env::set_var("BATON_KIT", IN_BED);
        std::env::set_var("BATON_KIT_SCRATCH", root::SCRATCH_IN_BED);
        std::env::set_var("TMPDIR", "/tmp");
        std::env::set_var("PATH", format!("{IN_BED}/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    }
    let busybox = format!("{IN_BED}/bin/busybox");
    let _ = Command::new(busybox).args(["ip", "link", "set", "lo", "up"]).status();
    let daemon = start_containerd()?;
    let import = Command::new("ctr").args(["image", "import", &format!("{IN_BED}/image.tar")]).output();
    let import = import.map_err(|err| format!("start ctr: {err}"))?;
    if !import.status.success() {
        return Err(format!("import the image: {}", String::from_utf8_lossy(&import.stderr).trim()));
    }
    Ok(daemon)
}

/// The cgroups of the bed of a run, for the process that starts it.
fn places(id: &str) -> Result<Vec<PathBuf>, String> {
    cgroup::places(&format!("gpu-kit-{id}")).map_err(|fault| fault.to_string())
}

fn start_containerd() -> Result<Child, String> {
    let io = |what: &str, err: std::io::Error| format!("{what}: {err}");
    fs::write("/run/containerd.toml", CONTAINERD).map_err(|err| io("write containerd's settings", err))?;
    let log = File::create(LOG).map_err(|err| io("make containerd's log", err))?;
    let notify = UnixDatagram::bind("/run/notify").map_err(|err| io("listen for containerd's word", err))?;
    notify.set_read_timeout(Some(READY_DEADLINE)).map_err(|err| io("set a deadline", err))?;
    let mut daemon = kit::ends_with_us(&mut Command::new("containerd"))
        .args(["--config", "/run/containerd.toml"])
        .env("NOTIFY_SOCKET", "/run/notify")
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(|err| io("share the log", err))?)
        .stderr(log)
        .spawn()
        .map_err(|err| io("start containerd", err))?;
    // It says when it answers, as a service manager is told.
    if notify.recv(&mut [0u8; 256]).is_err() {
        let _ = daemon.kill();
        let said = fs::read_to_string(LOG).unwrap_or_default();
        return Err(format!("containerd does not answer: {}", child::tail(&said)));
    }
    Ok(daemon)
}

/// Ends every process of the bed of a run and removes its cgroups; called outside of it.
pub fn clear(id: &str) -> Result<(), String> {
    let places = places(id)?;
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let left = cgroup::processes(&places);
        for pid in &left {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), nix::sys::signal::Signal::SIGKILL);
        }
        if left.is_empty() && cgroup::remove(&places) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("{} processes of the bed do not end", left.len()));
        }
        // The kernel gives no event for a cgroup that has become empty.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The last errors in containerd's log, for a check that failed.
pub fn errors() -> String {
    let log = fs::read_to_string(LOG).unwrap_or_default();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("level=error")).collect();
    child::tail(&errors.join("\n"))
}
