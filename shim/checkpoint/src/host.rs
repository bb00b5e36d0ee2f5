//! The machine a checkpoint is saved on or restored on.

use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use baton_image::manifest::{CgroupVersion, Host};

/// Most of /proc/cpuinfo that is read, in bytes: the first CPU is enough.
const CPUINFO_MAX: usize = 64 * 1024;

/// This machine.
///
/// # Errors
/// `SYSTEM` when /proc or uname do not answer.
pub fn here() -> Result<Host> {
    let uname = nix::sys::utsname::uname().map_err(|err| Fault::new(Code::System, "uname", err))?;
    let cpuinfo = std::fs::read("/proc/cpuinfo").attempt(|| "read /proc/cpuinfo")?;
    let cpuinfo = String::from_utf8_lossy(&cpuinfo[..cpuinfo.len().min(CPUINFO_MAX)]).into_owned();
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    Ok(Host {
        arch: uname.machine().to_string_lossy().into_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
        cpu_model: field(&cpuinfo, "model name").unwrap_or_default().to_string(),
        cpu_flags: field(&cpuinfo, "flags").unwrap_or_default().split_whitespace().map(str::to_string).collect(),
        cgroup: if unified { CgroupVersion::V2 } else { CgroupVersion::V1 },
    })
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The name of this node, as its kernel has it.
pub fn node_name() -> Option<String> {
    nix::unistd::gethostname().ok().map(|name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_cpu_gives_model_and_flags() {
        let text = "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu sse avx\n\nprocessor\t: 1\nmodel name\t: B\n";
        assert_eq!(super::field(text, "model name"), Some("A CPU"));
        assert_eq!(super::field(text, "flags"), Some("fpu sse avx"));
        assert_eq!(super::field(text, "absent"), None);
    }
}
