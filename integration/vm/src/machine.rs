//! A virtual machine and what is said to it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_fault::{Attempt, Code, Fault, Result};
use nix::sys::signal::Signal;

use crate::image::{Image, kernel};

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(300);
/// Most that is read of what a command printed, in bytes.
const PRINTED_MAX: u64 = 1 << 20;
/// How much of the machine's console is told when it fails, in lines.
const CONSOLE_LINES: usize = 20;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

impl Side {
    /// Its name, and host name.
    pub fn name(self) -> &'static str {
        match self {
            Side::Left => "left",
            Side::Right => "right",
        }
    }

    /// Its address in the network of the two.
    pub fn address(self) -> &'static str {
        match self {
            Side::Left => "10.9.0.1",
            Side::Right => "10.9.0.2",
        }
    }
}

/// A running machine; ended when dropped, and when this program ends.
pub struct Machine {
    side: Side,
    emulator: Child,
    line: BufReader<UnixStream>,
    console: PathBuf,
}

impl Machine {
    /// Switches it on. The left one first: the right one plugs its network in there.
    ///
    /// # Errors
    /// `SYSTEM` when there is no emulator.
    pub fn boot(image: &Image, side: Side) -> Result<Machine> {
        let what = || format!("start the machine {}", side.name());
        let (socket, console) =
            (image.folder().join(format!("{}-line", side.name())), image.folder().join(side.name()));
        let network = image.folder().join("network");
        let server = if side == Side::Left { "on" } else { "off" };
        let append = format!(
            "console=ttyS0 root=/dev/nvme0n1 rw init=/init quiet loglevel=3 panic=-1 node={} address={}",
            side.name(),
            side.address()
        );
        let mac = format!("52:54:00:00:00:0{}", side as u8 + 1);
        let mut command = Command::new("qemu-system-x86_64");
        command.args([
            "-machine",
            "pc,accel=tcg",
            "-cpu",
            "max",
            "-smp",
            "1",
            "-m",
            "1500",
            "-nodefaults",
            "-no-reboot",
        ]);
        command.args(["-display", "none", "-kernel"]).arg(kernel().join("vmlinuz")).args(["-append", &append]);
        command.args(["-drive", &format!("file={},if=none,id=disk,format=raw,snapshot=on", image.disk().display())]);
        command.args(["-device", "nvme,serial=disk,drive=disk"]);
        command.args([
            "-netdev",
            &format!("stream,id=net,server={server},addr.type=unix,addr.path={}", network.display()),
        ]);
        command.args(["-device", &format!("virtio-net-pci,netdev=net,mac={mac},romfile=")]);
        command.args(["-serial", &format!("file:{}", console.display())]);
        command.args(["-serial", &format!("unix:{},server=on,wait=off", socket.display())]);
        // SAFETY: between fork and exec the child makes one system call, which is allowed there.
        unsafe {
            command.pre_exec(|| nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(Into::into));
        }
        let mut emulator = command.stdin(Stdio::null()).spawn().attempt(what)?;
        let end = Instant::now() + PATIENCE;
        let stream = loop {
            if let Ok(stream) = UnixStream::connect(&socket) {
                break stream;
            }
            if let Ok(Some(status)) = emulator.try_wait() {
                return Err(Fault::new(Code::System, what(), status).advise("see what qemu said above"));
            }
            if Instant::now() > end {
                let _ = emulator.kill();
                return Err(Fault::new(Code::Deadline, what(), "its serial line is not there"));
            }
            // qemu says nothing when it listens; connecting is the only way to ask.
            std::thread::sleep(Duration::from_millis(20));
        };
        stream.set_read_timeout(Some(PATIENCE)).attempt(what)?;
        Ok(Machine { side, emulator, line: BufReader::new(stream), console })
    }

    /// Which one it is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Waits until its containerd answers.
    ///
    /// # Errors
    /// `DEADLINE`, with the last lines of its console.
    pub fn wait(&mut self) -> Result<()> {
        let said = self.read_line()?;
        if said == "ready" {
            return Ok(());
        }
        Err(self.fault("wait for it", format!("it said {said:?}")))
    }

    /// Runs a command line of the shell to its end; exit status, and what it printed.
    ///
    /// # Errors
    /// `DEADLINE` when no answer comes.
    pub fn attempt(&mut self, command: &str) -> Result<(u8, String)> {
        let sent = writeln!(self.line.get_mut(), "{command}");
        sent.attempt(|| format!("say {command:?} to {}", self.side.name()))?;
        let head = self.read_line()?;
        let numbers =
            head.split_once(' ').and_then(|(status, length)| Some((status.parse().ok()?, length.parse().ok()?)));
        let Some((status, length)) = numbers.filter(|(_, length)| *length <= PRINTED_MAX) else {
            return Err(self.fault(command, format!("it said {head:?}")));
        };
        let mut printed = Vec::new();
        let read = (&mut self.line).take(length).read_to_end(&mut printed);
        read.attempt(|| format!("hear what {command:?} printed"))?;
        Ok((status, String::from_utf8_lossy(&printed).into_owned()))
    }

    /// Runs a command line that must succeed; what it printed.
    ///
    /// # Errors
    /// `SYSTEM` with that, when it fails.
    pub fn ok(&mut self, command: &str) -> Result<String> {
        match self.attempt(command)? {
            (0, printed) => Ok(printed),
            (status, printed) => Err(self.fault(command, format!("exit status {status}: {}", printed.trim()))),
        }
    }

    /// A fault of what was done on this machine.
    pub fn fault(&self, what: &str, why: impl std::fmt::Display) -> Fault {
        eprintln!("--- console of {}:\n{}\n---", self.side.name(), self.console_tail());
        Fault::new(Code::System, format!("{what:?} on {}", self.side.name()), why).advise("see its console above")
    }

    fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        match (&mut self.line).take(PRINTED_MAX).read_line(&mut line) {
            Ok(1..) => Ok(line.trim_end().to_owned()),
            Ok(0) => Err(self.fault("listen to it", "it has ended")),
            Err(err) => Err(self.fault("listen to it", err)),
        }
    }

    fn console_tail(&self) -> String {
        let mut text = String::new();
        let _ = File::open(&self.console).and_then(|file| file.take(PRINTED_MAX).read_to_string(&mut text));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
    }
}
