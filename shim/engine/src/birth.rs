//! How a process of a container is born: forked into the container's process namespace, moved into its cgroup, and
//! made what the spec says by libcontainer's own first process.
//!
//! libcontainer's builders put a second process in between and set the cgroup up there, with a manager that looks up
//! each controller in the mount table several times over and moves the process under a lock of the whole machine: two
//! thirds of the time that a container took to be made. What they do for user and time namespaces, network devices,
//! seccomp listeners, id-mapped mounts and cache allocation is not repeated here: see [`is_ordinary`].

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;

use baton_fault::{Attempt, Code, Fault, Result};
use libcontainer::channel::ChannelError as Base;
use libcontainer::container::Container;
use libcontainer::hooks::run_hooks;
use libcontainer::namespaces::Namespaces;
use libcontainer::notify_socket::NotifyListener;
use libcontainer::process::args::{ContainerArgs, ContainerType};
use libcontainer::process::init::container_init_process;
use libcontainer::process::{channel, cpu_affinity};
use libcontainer::syscall::syscall::SyscallType;
use libcontainer::workload::Executor;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{ForkResult, Pid, fork};
use oci_spec::runtime::{LinuxNamespaceType, Spec};

use crate::cgroup::Cgroup;
use crate::container::chain;
use crate::culprit;
use crate::kill;
use crate::process;

/// A process that is to be born.
pub(crate) struct Birth<'a> {
    /// What the fault says was attempted.
    pub(crate) what: String,
    /// The spec, its root filesystem an absolute path.
    pub(crate) spec: Rc<Spec>,
    /// The cgroup, prepared.
    pub(crate) cgroup: &'a Cgroup,
    /// The container as it is being made; none for a program in an existing one.
    pub(crate) container: Option<Container>,
    /// Takes the word to begin.
    pub(crate) begin: NotifyListener,
    /// Socket for the terminal's master end.
    pub(crate) console: Option<OwnedFd>,
    /// Descriptors from 3 on that the program inherits.
    pub(crate) preserve_fds: i32,
    /// Change the root without pivot_root.
    pub(crate) no_pivot: bool,
    /// Takes the last steps.
    pub(crate) executor: Box<dyn Executor>,
}

/// A born process, which waits for the word to begin.
pub(crate) struct Born {
    /// Its number.
    pub(crate) pid: i32,
    /// Its end says why it could not be executed, or nothing.
    last_words: File,
}

impl Born {
    /// Waits until the program has taken the process over.
    ///
    /// # Errors
    /// `ENGINE` with the reason why it did not; the process has ended then.
    pub(crate) fn executed(mut self, what: &str) -> Result<i32> {
        let mut words = String::new();
        self.last_words.read_to_string(&mut words).attempt(|| format!("{what}: wait for the program"))?;
        if words.is_empty() {
            return Ok(self.pid);
        }
        process::wait(self.pid)?;
        Err(Fault::new(Code::Engine, what, words).advise("correct the command"))
    }
}

/// Whether this module can make the process; otherwise libcontainer's builder does.
pub(crate) fn is_ordinary(spec: &Spec) -> bool {
    let Some(linux) = spec.linux() else { return false };
    let namespaces = linux.namespaces().iter().flatten();
    let namespaces_are = namespaces
        .into_iter()
        .all(|namespace| !matches!(namespace.typ(), LinuxNamespaceType::User | LinuxNamespaceType::Time));
    let mut mounts = spec.mounts().iter().flatten();
    let mapped = mounts.any(|mount| {
        mount.uid_mappings().is_some()
            || mount.gid_mappings().is_some()
            || mount.options().iter().flatten().any(|option| option == "idmap" || option == "ridmap")
    });
    let listens = linux.seccomp().as_ref().is_some_and(libcontainer::seccomp::is_notify);
    let devices = linux.net_devices().as_ref().is_some_and(|devices| !devices.is_empty());
    namespaces_are && !mapped && !listens && !devices && linux.intel_rdt().is_none()
}

impl Birth<'_> {
    /// Forks the process and waits until it is ready to execute its program.
    ///
    /// # Errors
    /// `ENGINE` with what libcontainer says; no process is left then.
    pub(crate) fn give(self) -> Result<Born> {
        let what = self.what.clone();
        let failed = |err: &dyn std::error::Error| Fault::new(Code::Engine, &what, chain(err));
        self.set_process_wide()?;
        let (to_parent, mut from_child) = channel::main_channel().map_err(|err| failed(&err))?;
        let (mut to_child, from_parent) = channel::init_channel().map_err(|err| failed(&err))?;
        let (mut gate, waits) = UnixStream::pair().attempt(|| format!("{what}: make a gate"))?;
        let (last_words, words) =
            nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|err| Fault::io(&what, &err.into()))?;
        let child = Child { birth: &self, to_parent, from_parent, gate: waits, words };
        let pid = self.in_pid_namespace(|| {
            // SAFETY: this process has one thread, so the child may do whatever it likes.
            match unsafe { fork() }? {
                ForkResult::Parent { child: pid } => {
                    // Ours are copies: while they are open, the end of the child is not seen.
                    let _ = (child.to_parent.close(), child.from_parent.close());
                    Ok(pid.as_raw())
                }
                ForkResult::Child => child_of_fork(child),
            }
        })?;
        let outcome = (|| {
            if self.cgroup.is_unified() {
                self.cgroup.admit(pid)?;
                if self.container.is_some() {
                    let linux = self.spec.linux().as_ref();
                    self.cgroup.restrict(linux.and_then(|linux| linux.resources().as_ref()))?;
                }
            }
            gate.write_all(b"1").attempt(|| format!("{what}: open the gate"))?;
            self.run_early_hooks(pid, &mut to_child, &mut from_child)?;
            from_child.wait_for_init_ready().map_err(|err| self.failure(&err))
        })();
        let _ = (to_child.close(), from_child.close());
        match outcome {
            Ok(()) => Ok(Born { pid, last_words: File::from(last_words) }),
            Err(fault) => {
                // It may have ended by itself.
                let _ = kill::send(pid, libc::SIGKILL);
                process::wait(pid)?;
                Err(fault)
            }
        }
    }

    /// What this process sets for itself, so that its child has it from the first moment.
    fn set_process_wide(&self) -> Result<()> {
        let adjustment = self.spec.process().as_ref().and_then(|process| process.oom_score_adj());
        if let Some(adjustment) = adjustment {
            let file = "/proc/self/oom_score_adj";
            std::fs::write(file, adjustment.to_string()).attempt(|| format!("write {adjustment} to {file}"))?;
        }
        // Nobody inside may trace us, nor look into our memory, while we join namespaces.
        nix::sys::prctl::set_dumpable(false).map_err(|err| Fault::io("become undumpable", &err.into()))
    }

    /// Runs `fork` so that its child is born in the process namespace of the spec; our later children are not.
    fn in_pid_namespace(&self, fork: impl FnOnce() -> nix::Result<i32>) -> Result<i32> {
        let io = |what: &str, err: nix::Error| Fault::io(format_args!("{}: {what}", self.what), &err.into());
        let namespaces = self.spec.linux().as_ref().and_then(|linux| linux.namespaces().as_deref());
        let mut namespaces = namespaces.unwrap_or_default().iter();
        let Some(namespace) = namespaces.find(|namespace| namespace.typ() == LinuxNamespaceType::Pid) else {
            return fork().map_err(|err| io("fork", err));
        };
        let open = |path: &PathBuf| File::open(path).attempt(|| format!("open {}", path.display()));
        let ours = open(&PathBuf::from("/proc/self/ns/pid"))?;
        match namespace.path() {
            Some(path) => {
                setns(open(path)?, CloneFlags::CLONE_NEWPID).map_err(|err| io("join the process namespace", err))?;
            }
            None => unshare(CloneFlags::CLONE_NEWPID).map_err(|err| io("make a process namespace", err))?,
        }
        let forked = fork().map_err(|err| io("fork", err));
        setns(ours, CloneFlags::CLONE_NEWPID).map_err(|err| io("return to our process namespace", err))?;
        forked
    }

    /// Hooks that look into the namespaces from outside, between their making and the change of root.
    fn run_early_hooks(
        &self,
        pid: i32,
        to_child: &mut channel::InitSender,
        from_child: &mut channel::MainReceiver,
    ) -> Result<()> {
        let (Some(hooks), Some(container)) = (self.spec.hooks(), &self.container) else { return Ok(()) };
        let failed = |err: &dyn std::error::Error| Fault::new(Code::Engine, &self.what, chain(err));
        from_child.wait_for_hook_request().map_err(|err| self.failure(&err))?;
        for hook in [hooks.prestart(), hooks.create_runtime()].into_iter().flatten().flatten() {
            let one = vec![hook.clone()];
            run_hooks(Some(&one), Some(&container.state), None, Some(Pid::from_raw(pid)), None).map_err(|err| {
                let why = format!("hook {}: {}", hook.path().display(), chain(&err));
                Fault::new(Code::Engine, &self.what, why).advise("see what the hook says, or leave it out")
            })?;
        }
        to_child.hook_done().map_err(|err| failed(&err))
    }

    /// What the child said of why it cannot become what it should, without what libcontainer puts around it.
    fn failure(&self, err: &channel::ChannelError) -> Fault {
        let text = match err {
            channel::ChannelError::ExecError(said) => {
                said.strip_prefix("error in executing process : ").unwrap_or(said).to_owned()
            }
            channel::ChannelError::ReceiveError { source: Base::BrokenChannel, .. } => self.sudden_end(),
            other => chain(other),
        };
        Fault::new(Code::Engine, &self.what, text).advise("correct config.json or the command")
    }

    /// The child is gone and had no time to say why.
    fn sudden_end(&self) -> String {
        let resources = self.spec.linux().as_ref().and_then(|linux| linux.resources().as_ref());
        let limit = resources.and_then(|resources| resources.memory().as_ref()?.limit());
        let memory = limit
            .filter(|bytes| *bytes > 0)
            .map_or(String::new(), |bytes| format!(", perhaps for want of memory: its limit is {bytes} bytes"));
        format!("its first process was killed before it was ready{memory}")
    }
}

/// What the child has of its birth.
struct Child<'a> {
    birth: &'a Birth<'a>,
    to_parent: channel::MainSender,
    from_parent: channel::InitReceiver,
    /// Opens once the parent has put us into a cgroup of version 2.
    gate: UnixStream,
    words: OwnedFd,
}

/// Binds this process to processors, where the spec names some.
fn run_on(processors: Option<&String>) -> std::result::Result<(), String> {
    let Some(processors) = processors else { return Ok(()) };
    cpu_affinity::set_cpuset_affinity_from_string(Pid::from_raw(0), processors)
        .map_err(|err| format!("run on processors {processors}: {}", chain(&err)))
}

/// The child never returns into its parent's code, whatever happens.
fn child_of_fork(mut child: Child) -> ! {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| child.become_container()));
    let why = match outcome {
        Ok(Err(why)) => why,
        Ok(Ok(())) => "the program was not executed".into(),
        Err(_) => "it panicked".into(),
    };
    // Whoever still listens learns it; there is nobody else to tell.
    let _ = child.to_parent.exec_failed(why.clone());
    let _ = nix::unistd::write(&child.words, why.as_bytes());
    // SAFETY: _exit does not return and runs nothing of the parent's.
    unsafe { libc::_exit(1) }
}

impl Child<'_> {
    fn become_container(&mut self) -> std::result::Result<(), String> {
        let birth = self.birth;
        let said = |what: &str, err: &dyn std::error::Error| format!("{what}: {}", chain(err));
        nix::sys::prctl::set_name(c"baton:[init]").map_err(|err| said("name the process", &err))?;
        self.gate.read_exact(&mut [0]).map_err(|err| said("wait for the cgroup", &err))?;
        let syscall = SyscallType::Linux;
        let process = birth.spec.process().as_ref().ok_or("the spec has no process")?;
        let affinity = process.exec_cpu_affinity().as_ref().filter(|_| birth.container.is_none());
        run_on(affinity.and_then(|affinity| affinity.initial().as_ref()))?;
        birth.cgroup.join().map_err(|fault| fault.to_string())?;
        run_on(affinity.and_then(|affinity| affinity.cpu_affinity_final().as_ref()))?;
        for rlimit in process.rlimits().iter().flatten() {
            syscall.create_syscall().set_rlimit(rlimit).map_err(|err| {
                let (name, soft, hard) = (rlimit.typ(), rlimit.soft(), rlimit.hard());
                said(&format!("set {name} to {soft}, at most {hard}"), &err)
            })?;
        }
        self.join_user_namespace()?;
        let kind = match &birth.container {
            Some(_) => ContainerType::InitContainer,
            None => ContainerType::TenantContainer { exec_notify_fd: self.words.as_raw_fd() },
        };
        let rootfs = birth.spec.root().as_ref().ok_or("the spec has no root")?.path().clone();
        let args = ContainerArgs {
            container_type: kind,
            syscall,
            spec: birth.spec.clone(),
            rootfs,
            console_socket: birth.console.as_ref().map(AsRawFd::as_raw_fd),
            notify_listener: birth.begin.clone(),
            preserve_fds: birth.preserve_fds,
            container: birth.container.clone(),
            user_ns_config: None,
            cgroup_config: libcgroups::common::CgroupConfig {
                cgroup_path: PathBuf::new(),
                systemd_cgroup: false,
                container_name: String::new(),
            },
            detached: true,
            executor: birth.executor.clone(),
            no_pivot: birth.no_pivot,
            stdin: None,
            stdout: None,
            stderr: None,
            as_sibling: false,
            pid_file: None,
        };
        container_init_process(&args, &mut self.to_parent, &mut self.from_parent)
            .map_err(|err| culprit::told(&err, &birth.spec))
    }

    /// A program in an existing container joins its user namespace before the others, which belong to that one.
    fn join_user_namespace(&self) -> std::result::Result<(), String> {
        let linux = self.birth.spec.linux().as_ref().ok_or("the spec has no linux section")?;
        let namespaces = Namespaces::try_from(linux.namespaces().as_ref()).map_err(|err| chain(&err))?;
        for kind in [LinuxNamespaceType::User, LinuxNamespaceType::Time] {
            if let Some(namespace) = namespaces.get(kind).map_err(|err| chain(&err))? {
                namespaces.unshare_or_setns(namespace).map_err(|err| format!("join {kind:?}: {}", chain(&err)))?;
                if kind == LinuxNamespaceType::User {
                    let root = SyscallType::Linux.create_syscall();
                    root.set_id(nix::unistd::Uid::from_raw(0), nix::unistd::Gid::from_raw(0))
                        .map_err(|err| format!("become root of the container: {}", chain(&err)))?;
                }
            }
        }
        Ok(())
    }
}
