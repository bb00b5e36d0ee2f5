//! The cgroup namespace of a rebuilt container. CRIU is told to leave cgroups alone, so the tree has the namespace that
//! CRIU's worker is started in.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use baton_fault::{Attempt, Code, Fault, Result};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Pid, fork, pipe, read, write};
use oci_spec::runtime::LinuxNamespaceType;

use crate::bundle::Bundle;
use crate::cgroup::Cgroup;
use crate::process;

const WHAT: &str = "make the container's cgroup namespace";

/// The namespace that the live spec asks for; `None` for our own. The root of a new one is where its maker is, so a
/// child of ours goes into the container's cgroup for a moment; `entered` is told before.
pub(crate) fn asked_for(bundle: &Bundle, cgroup: &Cgroup, entered: &mut bool) -> Result<Option<OwnedFd>> {
    let path = match bundle.namespace(LinuxNamespaceType::Cgroup) {
        None => return Ok(None),
        Some(path) => path,
    };
    if let Some(path) = path {
        let file = File::open(path).attempt(|| format!("open cgroup namespace {}", path.display()))?;
        return Ok(Some(file.into()));
    }
    cgroup.must_be_empty()?;
    *entered = true;
    let (go, told) = pipe().map_err(system)?;
    let (done, tell) = pipe().map_err(system)?;
    // SAFETY: the engine has one thread, so the child may run any code.
    match unsafe { fork() }.map_err(system)? {
        ForkResult::Child => {
            let mut byte = [0];
            let moved = read(go.as_raw_fd(), &mut byte) == Ok(1);
            let made = moved && unshare(CloneFlags::CLONE_NEWCGROUP).is_ok();
            let _ = write(&tell, &[u8::from(made)]);
            loop {
                nix::unistd::pause();
            }
        }
        ForkResult::Parent { child } => {
            let maker = Maker(child);
            let resources = bundle.spec.linux().as_ref().and_then(|linux| linux.resources().as_ref());
            cgroup.enter(child.as_raw(), resources)?;
            write(&told, &[1]).map_err(system)?;
            drop(tell);
            let mut byte = [0];
            if read(done.as_raw_fd(), &mut byte).map_err(system)? != 1 || byte != [1] {
                return Err(Fault::new(Code::System, WHAT, "the kernel refuses it").advise("leave it out of the spec"));
            }
            let path = format!("/proc/{child}/ns/cgroup");
            let file = File::open(&path).attempt(|| format!("open {path}"))?;
            drop(maker);
            Ok(Some(file.into()))
        }
    }
}

fn system(err: nix::Error) -> Fault {
    Fault::io(WHAT, &err.into())
}

/// The child; killed and reaped when dropped.
struct Maker(Pid);

impl Drop for Maker {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGKILL);
        let _ = process::wait(self.0.as_raw());
    }
}
