//! The first process of a cell: sets it up, starts what runs in it, and buries the dead. When it ends, the
//! kernel ends everything in the cell.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use baton_fault::{Attempt, Code, Fault, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::waitpid;

use crate::boot::READY;
use crate::cell::{Cell, Role};
use crate::hub;
use crate::rootfs::{self, BIN, DRIVER};

/// PATH in a node.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// containerd's socket in a node.
const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
/// The bridge's link-layer address, of the locally administered kind.
const BRIDGE_ADDRESS: &str = "0a:d5:00:00:00:01";
/// Longest first line of what stands for the cards, in bytes.
const WORD_MAX: u64 = 4096;
/// Longest wait for one part of a cell.
const PART_DEADLINE: Duration = Duration::from_secs(30);

/// Never returns: reports over the lifeline, then lives until it is killed.
pub fn run(cell: &Cell, lifeline: OwnedFd) -> ! {
    let mut voice = File::from(lifeline);
    match begin(cell, &voice) {
        Ok(daemon) => {
            if voice.write_all(READY.as_bytes()).is_err() {
                std::process::exit(1);
            }
            drop(voice);
            // The other copy is standard input.
            let _ = File::open("/dev/null").map(|null| nix::unistd::dup2(null.as_raw_fd(), 0));
            bury(cell, daemon)
        }
        Err(fault) => {
            let _ = writeln!(voice, "{fault}");
            std::process::exit(1)
        }
    }
}

fn begin(cell: &Cell, lifeline: &File) -> Result<Child> {
    let image = open_image(cell)?;
    rootfs::enter(cell)?;
    nix::unistd::sethostname(cell.name.trim_start_matches('.'))
        .map_err(|errno| Fault::io("set the host name", &errno.into()))?;
    // SAFETY: this process has one thread.
    unsafe {
        for (name, _) in std::env::vars_os() {
            std::env::remove_var(name);
        }
        std::env::set_var("PATH", PATH);
        std::env::set_var("HOME", "/root");
    }
    match cell.role {
        Role::Hub => begin_hub(cell),
        Role::Node => begin_node(cell, lifeline, image),
    }
}

/// The image's archive lies outside of the node's root.
fn open_image(cell: &Cell) -> Result<Option<File>> {
    let Some(path) = &cell.image else { return Ok(None) };
    File::open(path).map(Some).attempt(|| format!("open {}", path.display()))
}

fn begin_hub(cell: &Cell) -> Result<Child> {
    // A bridge without an address of its own takes one of its ports', and another when that port goes: the nodes would
    // go on sending to the old one for half a minute.
    network(&format!(
        "link set lo up\nlink add br0 address {BRIDGE_ADDRESS} type bridge forward_delay 0\naddr add {}/16 dev br0\nlink set br0 up\n",
        cell.address()
    ))?;
    let mut daemon = start_daemon(cell)?;
    let end = Instant::now() + PART_DEADLINE;
    while TcpStream::connect((cell.address().as_str(), hub::PORT)).is_err() {
        if let Ok(Some(status)) = daemon.try_wait() {
            return Err(Fault::new(Code::Registry, "start the registry", status).advise("see its log"));
        }
        if Instant::now() > end {
            return Err(Fault::new(Code::Deadline, "start the registry", "it does not listen"));
        }
        // The registry says nothing when it listens; connecting is the only way to ask.
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(daemon)
}

fn begin_node(cell: &Cell, lifeline: &File, image: Option<File>) -> Result<Child> {
    network(&format!("link set lo up\naddr add {}/16 dev eth0\nlink set eth0 up\n", cell.address()))?;
    let notify = UnixDatagram::bind("/run/baton-node/notify").attempt(|| "listen for containerd's word")?;
    let daemon = start_daemon(cell)?;
    let cards = cell.cards.as_deref().map(|cards| start_cards(cell, cards)).transpose()?;
    wait_for_word(&notify, lifeline, &daemon)?;
    if !Path::new(CONTAINERD_SOCKET).exists() {
        return Err(Fault::new(Code::Unavailable, "start containerd", "it has no socket"));
    }
    if let Some(image) = image {
        import(&image)?;
    }
    if let Some(cards) = cards {
        wait_for_cards(cards)?;
    }
    Ok(daemon)
}

/// Waits until containerd says, as a service manager is told, that it answers.
fn wait_for_word(notify: &UnixDatagram, lifeline: &File, daemon: &Child) -> Result<()> {
    let end = pidfd(daemon.id())?;
    let mut fds = [
        PollFd::new(notify.as_fd(), PollFlags::POLLIN),
        PollFd::new(end.as_fd(), PollFlags::POLLIN),
        PollFd::new(lifeline.as_fd(), PollFlags::empty()),
    ];
    let timeout = PollTimeout::try_from(PART_DEADLINE).unwrap_or(PollTimeout::MAX);
    let ready = poll(&mut fds, timeout).map_err(|errno| Fault::io("wait for containerd", &errno.into()))?;
    let raised = |fd: &PollFd| fd.revents().is_some_and(|events| !events.is_empty());
    if ready == 0 {
        Err(Fault::new(Code::Deadline, "start containerd", "it does not answer"))
    } else if raised(&fds[1]) {
        Err(Fault::new(Code::Unavailable, "start containerd", last_log_line("/var/log/containerd.log")))
    } else if raised(&fds[2]) {
        Err(Fault::new(Code::State, "start containerd", "the start was given up"))
    } else {
        Ok(())
    }
}

/// A descriptor that becomes readable when the process ends.
pub fn pidfd(pid: u32) -> Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    match i32::try_from(fd) {
        // SAFETY: the descriptor is new, so nothing else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Fault::io(format!("watch process {pid}"), &std::io::Error::last_os_error())),
    }
}

fn last_log_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().last().unwrap_or("it ended and left no log").to_owned()
}

/// Starts containerd, or the hub's registry, with its log in /var/log.
fn start_daemon(cell: &Cell) -> Result<Child> {
    let (mut command, log) = match cell.role {
        Role::Node => (Command::new("containerd"), "/var/log/containerd.log"),
        Role::Hub => (hub::registry(), "/var/log/registry.log"),
    };
    let log = File::options().create(true).append(true).open(log).attempt(|| format!("open {log}"))?;
    command.env("NOTIFY_SOCKET", "/run/baton-node/notify").stdin(Stdio::null());
    command.stdout(log.try_clone().attempt(|| "share the log")?).stderr(log);
    command.spawn().attempt(|| format!("start {}", command.get_program().to_string_lossy()))
}

fn network(batch: &str) -> Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .attempt(|| "start ip")?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(batch.as_bytes()).attempt(|| "write to ip")?;
    }
    succeeded("set up the network", child)
}

fn succeeded(what: &str, child: Child) -> Result<()> {
    let done = child.wait_with_output().attempt(|| what.to_owned())?;
    if done.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&done.stderr);
    Err(Fault::new(Code::System, what, format!("{}: {}", done.status, text.trim())))
}

/// Imports the images that every node has, for `ctr` and for pods, at the same time.
fn import(images: &File) -> Result<()> {
    // Each reads from the beginning, so it needs an open file of its own; the path is outside of the node.
    let path = format!("/proc/self/fd/{}", images.as_raw_fd());
    let begun = ["default", "k8s.io"].map(|namespace| {
        Command::new("ctr")
            .args(["--namespace", namespace, "image", "import", "-"])
            .stdin(Stdio::from(File::open(&path).attempt(|| "read the images")?))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .attempt(|| "start ctr")
    });
    begun.into_iter().try_for_each(|child| succeeded("import the images of every node", child?))
}

/// Installs the simulated driver under the driver root and starts what stands for the cards; its standard output
/// tells when it listens.
fn start_cards(cell: &Cell, cards: &str) -> Result<ChildStdout> {
    let program = Path::new(BIN).join("baton-sim-card");
    let install = Command::new(&program)
        .args(["install", "--root", DRIVER, "--libs", BIN, "--cards", cards, "--seed", &cell.name])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .attempt(|| format!("start {}", program.display()))?;
    succeeded("install the simulated cards", install)?;
    let mut server = Command::new(&program)
        .args(["serve", "--root", DRIVER])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .attempt(|| format!("start {}", program.display()))?;
    let word = server.stdout.take();
    word.ok_or_else(|| Fault::new(Code::System, "serve the simulated cards", "it has no standard output"))
}

/// Waits until the cards say that they listen.
fn wait_for_cards(word: ChildStdout) -> Result<()> {
    let mut line = String::new();
    let read = BufReader::new(word.take(WORD_MAX)).read_line(&mut line);
    read.attempt(|| "wait for the simulated cards")?;
    if line.starts_with("ready") {
        return Ok(());
    }
    Err(Fault::new(Code::DriverMissing, "serve the simulated cards", format!("it said {line:?}"))
        .advise("see the log of the start"))
}

/// Reaps whatever ends in the cell; a daemon that ended is started again, as a service manager would.
fn bury(cell: &Cell, daemon: Child) -> ! {
    let mut daemon = daemon.id();
    loop {
        match waitpid(None, None) {
            Ok(status) => {
                if status.pid().is_some_and(|pid| pid.as_raw().unsigned_abs() == daemon) {
                    match start_daemon(cell) {
                        Ok(next) => daemon = next.id(),
                        Err(fault) => eprintln!("{fault}"),
                    }
                }
            }
            Err(Errno::ECHILD) => nix::unistd::pause(),
            Err(_) => {}
        }
    }
}
