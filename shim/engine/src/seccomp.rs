//! The filter of system calls that the live spec asks for, as the kernel has it, and the filters of rebuilt processes.
//!
//! Only the kernel tells what libcontainer installs: so a child installs it, and its program is read from there.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_criu::{FILTERS, FilterProgram};
use baton_fault::{Attempt, Code, Fault, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe};
use oci_spec::runtime::{LinuxSeccomp, LinuxSeccompFilterFlag, Spec};

use crate::container::chain;
use crate::process;

/// PTRACE_SECCOMP_GET_FILTER of linux/ptrace.h.
const GET_FILTER: libc::c_uint = 0x420c;
/// SECCOMP_FILTER_FLAG_LOG and SECCOMP_FILTER_FLAG_SPEC_ALLOW of linux/seccomp.h.
const FLAG_LOG: u32 = 2;
const FLAG_SPEC_ALLOW: u32 = 4;
/// Most instructions of a program: BPF_MAXINSNS of linux/bpf_common.h.
const INSTRUCTIONS_MAX: usize = 4096;
/// Longest time for a filter to be installed: it takes milliseconds.
const INSTALL_MAX: Duration = Duration::from_secs(5);
/// Most of the child's reason for a failure that is read, in bytes.
const REASON_MAX: u64 = 1024;

const WHAT: &str = "compile the seccomp filter of the live spec";

/// The saved filters of an image folder, covered by those that the rebuilt processes get. Only this process and those
/// that it starts see the cover: the image itself is not changed.
pub(crate) struct Covered {
    file: PathBuf,
    cover: PathBuf,
}

impl Covered {
    /// Covers them where the live spec has a filter. The caller has a mount namespace of its own.
    ///
    /// # Errors
    /// `RESTORE_STATE` when the saved processes have no filter and the live spec has one, `IMAGE_CORRUPT`.
    pub(crate) fn by_those_of(spec: &Spec, images: &Path, folder: &Path) -> Result<Option<Covered>> {
        let Some(seccomp) = spec.linux().as_ref().and_then(|linux| linux.seccomp().as_ref()) else { return Ok(None) };
        let Some(filters) = baton_criu::filters_under(images, &compile(seccomp)?)? else {
            let what = format!("look for filters in {}", images.display());
            return Err(Fault::new(Code::RestoreState, what, "the saved processes have none; the live spec has one")
                .advise("create the container with the security settings that the saved one had"));
        };
        let covered = Covered { file: images.join(FILTERS), cover: folder.join(FILTERS) };
        let cover = &covered.cover;
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        options
            .open(cover)
            .and_then(|mut file| file.write_all(&filters))
            .attempt(|| format!("write {}", cover.display()))?;
        let what = || format!("mount {} on {}", cover.display(), covered.file.display());
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let place = File::options().read(true).custom_flags(flags).open(&covered.file).attempt(what)?;
        if !place.metadata().attempt(what)?.is_file() {
            return Err(Fault::new(Code::ImageCorrupt, what(), "it is no file").advise("use another image"));
        }
        let place = PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd()));
        let none: Option<&str> = None;
        mount(Some(cover), &place, none, MsFlags::MS_BIND, none).map_err(std::io::Error::from).attempt(what)?;
        Ok(Some(covered))
    }
}

impl Drop for Covered {
    fn drop(&mut self) {
        // The mount is in our namespace only, and ends with it.
        let _ = umount2(&self.file, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW);
        let _ = fs::remove_file(&self.cover);
    }
}

/// The program that libcontainer installs for `seccomp`.
fn compile(seccomp: &LinuxSeccomp) -> Result<FilterProgram> {
    let (reason, told) = pipe().map(|(read, write)| (File::from(read), File::from(write))).map_err(system)?;
    // SAFETY: the engine has one thread, so the child can do whatever this process could.
    match unsafe { fork() }.map_err(system)? {
        ForkResult::Child => install_and_spin(seccomp, told),
        ForkResult::Parent { child } => {
            drop(told);
            let child = Filtered(child);
            if !process::wait_until(INSTALL_MAX, || child.is_filtered() || child.has_ended()) {
                return Err(Fault::new(Code::Deadline, WHAT, format_args!("it took more than {INSTALL_MAX:?}"))
                    .advise("try again when the machine has less to do"));
            }
            if child.has_ended() {
                let mut why = String::new();
                let _ = reason.take(REASON_MAX).read_to_string(&mut why);
                let why = if why.is_empty() { "it forbids what its own installation needs".to_owned() } else { why };
                return Err(Fault::new(Code::Engine, WHAT, why).advise("use another seccomp profile"));
            }
            let instructions = child.program().map_err(system)?;
            Ok(FilterProgram { instructions, flags: flags(seccomp) })
        }
    }
}

fn system(err: nix::Error) -> Fault {
    Fault::io(WHAT, &err.into())
}

/// Flags of a filter that outlive its installation.
fn flags(seccomp: &LinuxSeccomp) -> u32 {
    let flag = |flag: &LinuxSeccompFilterFlag| match flag {
        LinuxSeccompFilterFlag::SeccompFilterFlagLog => FLAG_LOG,
        LinuxSeccompFilterFlag::SeccompFilterFlagSpecAllow => FLAG_SPEC_ALLOW,
        _ => 0,
    };
    seccomp.flags().iter().flatten().map(flag).fold(0, |all, one| all | one)
}

/// The child: its filter may forbid everything, so nothing is done after the installation.
fn install_and_spin(seccomp: &LinuxSeccomp, mut told: File) -> ! {
    // SAFETY: prctl with these two arguments touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if let Err(err) = libcontainer::seccomp::initialize_seccomp(seccomp) {
        let _ = told.write_all(chain(&err).as_bytes());
        // SAFETY: ends this child at once, without what the parent has registered for its own end.
        unsafe { libc::_exit(1) }
    }
    loop {
        std::hint::spin_loop();
    }
}

/// A child that installs a filter; killed and reaped when dropped.
struct Filtered(Pid);

impl Filtered {
    fn is_filtered(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
    }

    /// Whether it is a zombie by now.
    fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, state)| state.trim_start().starts_with('Z'))
    }

    /// Stops it and reads the program of its first filter.
    fn program(&self) -> nix::Result<Vec<u8>> {
        self.trace(libc::PTRACE_SEIZE, 0, std::ptr::null_mut())?;
        self.trace(libc::PTRACE_INTERRUPT, 0, std::ptr::null_mut())?;
        if let WaitStatus::Exited(..) | WaitStatus::Signaled(..) = waitpid(self.0, Some(WaitPidFlag::__WALL))? {
            return Err(nix::Error::ESRCH);
        }
        let length = self.trace(GET_FILTER, 0, std::ptr::null_mut())?;
        // A struct sock_filter has 8 bytes.
        let mut program = vec![0u64; usize::try_from(length).unwrap_or(0).min(INSTRUCTIONS_MAX)];
        if self.trace(GET_FILTER, 0, program.as_mut_ptr())? != length || program.len() as i64 != length {
            return Err(nix::Error::EMSGSIZE);
        }
        Ok(program.iter().flat_map(|instruction| instruction.to_ne_bytes()).collect())
    }

    fn trace(&self, request: libc::c_uint, address: usize, data: *mut u64) -> nix::Result<i64> {
        // SAFETY: the only request of ours that writes to `data` is GET_FILTER, which does so when it is not null:
        // then it is a buffer for the program, whose length the kernel has told and which cannot change.
        nix::errno::Errno::result(unsafe { libc::ptrace(request, self.0.as_raw(), address, data) })
    }
}

impl Drop for Filtered {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGKILL);
        while !matches!(
            waitpid(self.0, Some(WaitPidFlag::__WALL)),
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(nix::Error::ECHILD)
        ) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str) -> LinuxSeccomp {
        serde_json::from_str(text).expect("a profile")
    }

    #[test]
    fn the_program_is_that_of_the_kernel() {
        let open = r#"{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
            "flags": ["SECCOMP_FILTER_FLAG_LOG"],
            "syscalls": [{"names": ["acct"], "action": "SCMP_ACT_ERRNO", "errnoRet": 7}]}"#;
        let program = compile(&profile(open)).expect("compile");
        assert_eq!(program.flags, FLAG_LOG);
        // seccomp_data.arch is loaded first: BPF_LD | BPF_W | BPF_ABS, offset 4.
        assert_eq!(program.instructions[..8], *b"\x20\0\0\0\x04\0\0\0");
        let holds = |wanted: &[u8]| program.instructions.chunks(8).any(|instruction| instruction == wanted);
        // SECCOMP_RET_ERRNO | 7 and SECCOMP_RET_ALLOW.
        assert!(holds(b"\x06\0\0\0\x07\0\x05\0") && holds(b"\x06\0\0\0\0\0\xff\x7f"), "{program:x?}");
    }

    #[test]
    fn a_profile_that_cannot_be_installed_says_why() {
        let notify = r#"{"defaultAction": "SCMP_ACT_NOTIFY"}"#;
        let fault = compile(&profile(notify)).expect_err("notify");
        assert!(fault.to_string().contains("SCMP_ACT_NOTIFY"), "{fault}");
    }

    #[test]
    fn one_that_forbids_everything_is_compiled_or_refused_in_time() {
        let strict = r#"{"defaultAction": "SCMP_ACT_ERRNO"}"#;
        assert!(compile(&profile(strict)).is_ok());
        let deadly = r#"{"defaultAction": "SCMP_ACT_KILL_PROCESS"}"#;
        let _ = compile(&profile(deadly));
    }
}
