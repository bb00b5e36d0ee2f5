//! The last steps of a process of a container, taken inside it: find the program, execute it.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use libcontainer::workload::{Executor, ExecutorError, ExecutorSetEnvsError, ExecutorValidationError};
use oci_spec::runtime::{Process, Spec};

/// Where a program without a path is looked for when the process has no PATH: as execvp(3) does.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Executes the program that the spec names.
#[derive(Clone)]
pub(crate) struct Workload;

nix::ioctl_write_ptr_bad!(set_size, nix::libc::TIOCSWINSZ, nix::libc::winsize);

/// Gives the terminal of a process the size that its spec has for it. Clients tell the size by themselves only when it
/// changes, or before there is a terminal.
fn set_window_size(process: &Process) {
    let Some(size) = process.console_size().filter(|_| process.terminal().unwrap_or(false)) else { return };
    let clamp = |length: u64| u16::try_from(length).unwrap_or(u16::MAX);
    let size =
        nix::libc::winsize { ws_row: clamp(size.height()), ws_col: clamp(size.width()), ws_xpixel: 0, ws_ypixel: 0 };
    // A terminal of another size is no reason not to run.
    // SAFETY: standard input is open for the length of the call, and `size` is a valid winsize.
    let _ = unsafe { set_size(nix::libc::STDIN_FILENO, &raw const size) };
}

/// Rust programs ignore SIGPIPE, and what is ignored stays so in the program that takes their place: it would go on
/// writing to a pipe that nobody reads.
fn reset_pipe_signal() -> nix::Result<()> {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler is installed, only the default action.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }.map(drop)
}

impl Executor for Workload {
    fn exec(&self, spec: &Spec) -> Result<(), ExecutorError> {
        let args = args(spec).ok_or(ExecutorError::InvalidArg)?;
        let other = |text: String| ExecutorError::Other(text);
        let program = find(&args[0], path_of(spec)).map_err(&other)?;
        let string = |bytes: &[u8]| CString::new(bytes).map_err(|_| ExecutorError::InvalidArg);
        let argv = args.iter().map(|arg| string(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let path = string(program.as_os_str().as_bytes())?;
        if let Some(process) = spec.process() {
            set_window_size(process);
        }
        reset_pipe_signal().map_err(|err| other(format!("reset SIGPIPE: {}", err.desc())))?;
        match nix::unistd::execv(&path, &argv) {
            Ok(never) => match never {},
            Err(err) => Err(other(format!("exec {}: {}", args[0], err.desc()))),
        }
    }

    fn validate(&self, spec: &Spec) -> Result<(), ExecutorValidationError> {
        let invalid = ExecutorValidationError::ArgValidationError;
        let args = args(spec).ok_or_else(|| invalid("the spec names no program".into()))?;
        find(&args[0], path_of(spec)).map(drop).map_err(invalid)
    }

    fn setup_envs(&self, envs: HashMap<String, String>) -> Result<(), ExecutorSetEnvsError> {
        let old: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
        for name in old {
            // SAFETY: this process has one thread.
            unsafe { std::env::remove_var(name) };
        }
        for (name, value) in envs {
            // SAFETY: this process has one thread.
            unsafe { std::env::set_var(name, value) };
        }
        Ok(())
    }
}

fn args(spec: &Spec) -> Option<&[String]> {
    spec.process().as_ref()?.args().as_deref().filter(|args| !args.is_empty())
}

fn path_of(spec: &Spec) -> &str {
    let env = spec.process().as_ref().and_then(|process| process.env().as_deref()).unwrap_or_default();
    env.iter().find_map(|entry| entry.strip_prefix("PATH=")).unwrap_or(DEFAULT_PATH)
}

/// The file that `name` means: itself when it has a slash, else the first of that name in the folders of `path`.
fn find(name: &str, path: &str) -> Result<PathBuf, String> {
    let candidates: Vec<PathBuf> = match name.contains('/') {
        true => vec![PathBuf::from(name)],
        false => path.split(':').filter(|dir| !dir.is_empty()).map(|dir| Path::new(dir).join(name)).collect(),
    };
    let mut seen = None;
    for file in candidates {
        if let Ok(meta) = file.metadata() {
            if meta.is_file() && meta.permissions().mode() & 0o111 != 0 {
                return Ok(file);
            }
            seen.get_or_insert(file);
        }
    }
    // The words are runc's: clients match them.
    Err(match seen {
        Some(file) => format!("exec: {:?}: permission denied", file.display().to_string()),
        None if name.contains('/') => format!("exec: {name:?}: no such file or directory"),
        None => format!("exec: {name:?}: executable file not found in $PATH"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_execvp_would() {
        assert_eq!(find("sh", "/nonexistent:/bin").expect("sh"), Path::new("/bin/sh"));
        assert_eq!(find("/bin/sh", "").expect("sh"), Path::new("/bin/sh"));
        assert!(find("nope", "/bin").expect_err("none").contains("executable file not found in $PATH"));
        assert!(find("/nope", "/bin").expect_err("none").contains("no such file or directory"));
        assert!(find("/etc/passwd", "").expect_err("no program").contains("permission denied"));
    }
}
