//! The processes of a node, as its /proc shows them from outside: no program has to be run there to look.

use std::fs;

use crate::job::IMAGE;
use crate::machine::Machine;
use crate::until::until;

/// A process of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its pid on the node.
    pub pid: u32,
    /// Its command line, with blanks between the words.
    pub command: String,
}

impl Machine {
    /// All that run; none that has ended and waits to be reaped, as it has no command line any more.
    ///
    /// # Panics
    /// When the node has no /proc.
    pub fn processes(&self) -> Vec<Process> {
        let entries = fs::read_dir(self.root_path("/proc")).expect("the node's /proc");
        let process = |entry: fs::DirEntry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let words = fs::read(entry.path().join("cmdline")).ok().filter(|words| !words.is_empty())?;
            let text = String::from_utf8_lossy(&words).replace('\0', " ");
            Some(Process { pid, command: text.trim_end().to_owned() })
        };
        entries.flatten().filter_map(process).collect()
    }

    /// The pid of a process whose command line is as asked.
    pub fn find_process(&self, wanted: impl Fn(&str) -> bool) -> Option<u32> {
        self.processes().into_iter().find(|process| wanted(&process.command)).map(|process| process.pid)
    }

    /// The shim that serves a container.
    ///
    /// # Panics
    /// When there is none.
    pub fn shim_of(&self, id: &str) -> u32 {
        let serves = format!(" -id {id} ");
        self.find_process(|command| {
            is_program(command, "containerd-shim-baton-v2")
                && command.contains(&serves)
                && command.contains(" -socket ")
        })
        .expect("the container's shim")
    }

    /// How many shims of Baton's serve containers.
    pub fn shims(&self) -> usize {
        let serves = |command: &str| is_program(command, "containerd-shim-baton-v2") && command.contains(" -socket ");
        self.processes().iter().filter(|process| serves(&process.command)).count()
    }

    /// A run of the engine with that verb, which is under way.
    pub fn engine_at(&self, verb: &str) -> Option<u32> {
        let verb = format!(" {verb} ");
        self.find_process(|command| is_program(command, "baton") && command.contains(&verb))
    }

    /// A process of that program.
    pub fn program(&self, name: &str) -> Option<u32> {
        self.find_process(|command| is_program(command, name))
    }

    /// The numbers that this machine has for the node's processes of that program, so that they can be signalled without
    /// a program that does it. Those in containers are not among them.
    pub fn host_pids_of(&self, name: &str) -> Vec<i32> {
        let namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let home = namespace(self.pid());
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_wanted = |pid: &i32| {
            let program = fs::read_link(format!("/proc/{pid}/exe"));
            program.is_ok_and(|program| program.file_name().is_some_and(|file| file == name)) && namespace(*pid) == home
        };
        pids.filter(is_wanted).collect()
    }

    /// Ends a process of the node at once, and waits until it is gone.
    ///
    /// # Panics
    /// When it has ended already.
    pub fn kill_at_once(&self, pid: u32) {
        self.ok(&["kill", "-9", &pid.to_string()]);
        until(&format!("process {pid} is gone"), || {
            self.processes().iter().all(|process| process.pid != pid).then_some(())
        });
    }

    /// Kills containerd and waits until its successor answers.
    ///
    /// # Panics
    /// When it does not run, or none follows it.
    pub fn restart_containerd(&self) {
        let daemon = until("containerd runs", || self.program("containerd"));
        self.kill_at_once(daemon);
        until("containerd is back", || {
            self.attempt(&["ctr", "image", "ls", "-q"]).stdout.contains(IMAGE).then_some(())
        });
    }
}

/// Whether a command line is one of that program, whatever folder it lies in.
fn is_program(command: &str, name: &str) -> bool {
    command.split(' ').next().and_then(|program| program.rsplit('/').next()) == Some(name)
}
