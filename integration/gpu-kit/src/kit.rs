//! Where the kit lies, and how its programs are started.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the kit is seen in the bed; programs name their loader and libraries there.
pub const IN_BED: &str = "/run/baton-gpu-kit";
/// Where, in the bed, the loader and libraries are of those programs that load the driver's.
pub const OWN_IN_BED: &str = "/run/baton-gpu-own";

/// The folder of the kit.
pub fn folder() -> Result<PathBuf, String> {
    std::env::var_os("BATON_KIT").map(PathBuf::from).ok_or_else(|| "BATON_KIT is not set; use ./run".to_owned())
}

/// The loader and the folder of libraries that `./run` chose.
pub fn chosen() -> Option<(PathBuf, PathBuf)> {
    let get = |name| std::env::var_os(name).map(PathBuf::from);
    Some((get("BATON_KIT_LOADER")?, get("BATON_KIT_LIBRARIES")?))
}

/// Where NVIDIA's libraries may lie, beside where the loader looks by itself.
fn search() -> String {
    std::env::var("BATON_KIT_SEARCH").unwrap_or_default()
}

/// A program of the kit. On the machine it is started through the chosen loader, since the place that it names itself is
/// there in the bed only.
pub fn program(name: &str) -> Result<Command, String> {
    let path = folder()?.join("bin").join(name);
    match chosen() {
        Some((loader, libraries)) if !Path::new(OWN_IN_BED).exists() => {
            let mut command = Command::new(loader);
            command.arg("--library-path").arg(format!("{}:{}", libraries.display(), search())).arg(path);
            Ok(command)
        }
        // The program names the folder of its own libraries, which comes before these.
        _ => {
            let mut command = Command::new(path);
            command.env("LD_LIBRARY_PATH", search());
            Ok(command)
        }
    }
}

/// Has a program end when the thread ends that starts it, however that happens.
pub fn ends_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec the closure makes one system call and touches no memory.
    unsafe { command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?)) }
}
