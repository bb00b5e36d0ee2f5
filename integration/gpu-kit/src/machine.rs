//! What the machine is, for the head of the report and as the first checks.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use baton_cuda::{Driver, code};

use crate::check::{Notes, Stop, Verdict};

/// The first driver whose library has the checkpoint API.
const CUDA_MINIMUM: i32 = 12080;

/// Kernel, cgroups, C library, rights.
pub fn facts() -> Vec<(&'static str, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_else(|err| err.to_string()).trim().to_owned();
    let capabilities =
        read("/proc/self/status").lines().find_map(|line| line.strip_prefix("CapEff:").map(str::to_owned));
    let cgroups =
        match (Path::new("/sys/fs/cgroup/cgroup.controllers").exists(), Path::new("/sys/fs/cgroup/memory").exists()) {
            (true, _) => "v2",
            (false, true) => "v1",
            (false, false) => "none seen",
        };
    let loader = std::env::var("BATON_KIT_LOADER").unwrap_or_else(|_| "the program's own".to_owned());
    let memory = read("/proc/meminfo").lines().next().unwrap_or_default().to_owned();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let date = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    vec![
        ("Baton", env!("CARGO_PKG_VERSION").to_owned()),
        ("date", format!("{date} s since 1970")),
        ("processors", processors.to_string()),
        ("memory", memory.trim_start_matches("MemTotal:").trim().to_owned()),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("system", os_name()),
        ("driver", driver_version()),
        ("cgroups", cgroups.to_owned()),
        ("loader", loader),
        ("capabilities", capabilities.unwrap_or_default().trim().to_owned()),
    ]
}

fn driver_version() -> String {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    text.lines().next().unwrap_or("none is loaded").to_owned()
}

fn os_name() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "unnamed".to_owned(), |name| name.trim_matches('"').to_owned())
}

/// The nodes that a whole card needs.
pub fn device_nodes(notes: &mut Notes) -> Verdict {
    let missing: Vec<&str> =
        ["/dev/nvidiactl", "/dev/nvidia-uvm"].into_iter().filter(|path| !Path::new(path).exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // NVIDIA's own tool makes them, as every first CUDA program has it do.
    notes.note(format!("{} missing at first", missing.join(" and ")));
    let made = std::process::Command::new("nvidia-modprobe").args(["-c", "0", "-u"]).status();
    let still: Vec<&str> = missing.into_iter().filter(|path| !Path::new(path).exists()).collect();
    if still.is_empty() {
        return Ok(());
    }
    Err(Stop::CannotRun(format!("{} missing, and nvidia-modprobe: {made:?}", still.join(" and "))))
}

/// The check that all later ones rest on.
pub const DRIVER: &str = "driver";

/// The driver answers, and has the checkpoint API.
pub fn driver(notes: &mut Notes) -> Verdict {
    let driver = Driver::open().map_err(|error| match error.code() {
        Some(code::NO_DEVICE) => {
            Stop::CannotRun(format!("{error}: there is no card that CUDA may use, or it is in MIG mode and not cut"))
        }
        _ => Stop::from(error),
    })?;
    let version = driver.version()?;
    notes.note(format!("CUDA {}.{}", version / 1000, version % 1000 / 10));
    for card in driver.cards()? {
        let (major, minor) = card.capability()?;
        notes.note(format!(
            "card {}: {} {} at {}, {} MiB, capability {major}.{minor}",
            card.ordinal(),
            card.name()?,
            card.uuid()?,
            card.bus_id()?,
            card.memory()? >> 20
        ));
    }
    if version < CUDA_MINIMUM {
        return Err(Stop::CannotRun(format!("CUDA {version} has no checkpoint API; {CUDA_MINIMUM} and newer have")));
    }
    Ok(())
}
