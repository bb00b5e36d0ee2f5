//! `spec`: a config.json to begin with.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use baton_fault::{Attempt, Code, Fault, Result};
use serde_json::{Value, json};

use crate::options::{Options, Words, refused, value};

pub fn spec(args: &[OsString]) -> Result<ExitCode> {
    let known = [value("bundle", Some('b')), refused("rootless", "Baton runs no rootless containers")];
    let options = Options::read("spec", args, &known, Words::Mixed)?;
    options.no_words()?;
    let path = options.path("bundle").unwrap_or_default().join("config.json");
    let mut text = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(b"\t");
    serde::Serialize::serialize(&example(), &mut serde_json::Serializer::with_formatter(&mut text, form))
        .map_err(|err| Fault::new(Code::System, "write JSON", err))?;
    match File::create_new(&path) {
        Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(Fault::new(Code::Exists, format_args!("write {}", path.display()), "there is one already")
                .advise("remove it first"))
        }
        file => file
            .and_then(|mut file| file.write_all(&text))
            .attempt(|| format!("write {}", path.display()))
            .map(|()| ExitCode::SUCCESS),
    }
}

/// A shell in the folder `rootfs`, with the capabilities, mounts and paths that runc's example has.
fn example() -> Value {
    let capabilities = ["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"];
    json!({
        "ociVersion": "1.2.1",
        "process": {
            "terminal": true,
            "user": { "uid": 0, "gid": 0 },
            "args": ["sh"],
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=xterm"],
            "cwd": "/",
            "capabilities": { "bounding": capabilities, "effective": capabilities, "permitted": capabilities },
            "rlimits": [{ "type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024 }],
            "noNewPrivileges": true,
        },
        "root": { "path": "rootfs", "readonly": true },
        "hostname": "baton",
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
              "options": ["nosuid", "strictatime", "mode=755", "size=65536k"] },
            { "destination": "/dev/pts", "type": "devpts", "source": "devpts",
              "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"] },
            { "destination": "/dev/shm", "type": "tmpfs", "source": "shm",
              "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"] },
            { "destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue",
              "options": ["nosuid", "noexec", "nodev"] },
            { "destination": "/sys", "type": "sysfs", "source": "sysfs",
              "options": ["nosuid", "noexec", "nodev", "ro"] },
            { "destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
              "options": ["nosuid", "noexec", "nodev", "relatime", "ro"] },
        ],
        "linux": {
            "resources": { "devices": [{ "allow": false, "access": "rwm" }] },
            "namespaces": [
                { "type": "pid" }, { "type": "network" }, { "type": "ipc" }, { "type": "uts" }, { "type": "mount" },
            ],
            "maskedPaths": [
                "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
                "/proc/timer_stats", "/proc/sched_debug", "/sys/firmware", "/proc/scsi",
            ],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    })
}
