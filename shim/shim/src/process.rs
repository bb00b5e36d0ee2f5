//! One process that containerd knows by name: a container's init or one that was executed in it.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use containerd_shim::asynchronous::io::{IoTasks, Pty, Stdio};
use time::OffsetDateTime;
use tokio::sync::{Notify, watch};

use crate::logs::Logs;
use crate::stdio::Copies;

/// How and when a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Exit status, or 128 + signal.
    pub status: u32,
    /// When the shim learned of it.
    pub at: OffsetDateTime,
}

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Known, not running yet.
    Created,
    /// Start is under way; an end that comes meanwhile is said after the start.
    Starting,
    /// Running.
    Running,
    /// Frozen.
    Paused,
    /// Ended.
    Stopped,
}

/// What changes in the life of a process.
#[derive(Debug)]
pub struct Life {
    /// Where it is.
    pub phase: Phase,
    /// Its pid as the shim sees it; 0 while there is none.
    pub pid: u32,
    /// Signals that came while it was being started and had no pid yet.
    pub pending: Vec<u32>,
}

/// A process that containerd knows by name.
pub struct Process {
    /// The name: the exec id, empty for the init.
    pub exec_id: String,
    /// Which streams containerd wants.
    pub stdio: Stdio,
    /// What its output goes into besides FIFOs.
    pub logs: Logs,
    io: Copies,
    pty: Mutex<Option<Pty>>,
    life: Mutex<Life>,
    settled: Notify,
    exit: watch::Sender<Option<Exit>>,
}

impl Process {
    /// A process that is known and not running.
    pub fn new(exec_id: &str, stdio: Stdio) -> Process {
        Process::at(Phase::Created, exec_id, stdio)
    }

    /// An init that is being made; [`Process::made`] says when it is.
    pub fn init(stdio: Stdio) -> Process {
        Process::at(Phase::Starting, "", stdio)
    }

    fn at(phase: Phase, exec_id: &str, stdio: Stdio) -> Process {
        Process {
            exec_id: exec_id.to_string(),
            stdio,
            logs: Logs::default(),
            io: Copies::default(),
            pty: Mutex::new(None),
            life: Mutex::new(Life { phase, pid: 0, pending: Vec::new() }),
            settled: Notify::new(),
            exit: watch::Sender::new(None),
        }
    }

    /// Its life, held only for the moment: nothing slow is done with it.
    pub fn life(&self) -> MutexGuard<'_, Life> {
        // A panic while it was held leaves two plain values, both valid.
        self.life.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The copies between the process's pipes and containerd's FIFOs.
    pub fn io(&self) -> IoTasks {
        self.io.current()
    }

    /// Ends the copies of a start that failed.
    pub async fn renew_io(&self) {
        self.io.renew().await;
    }

    /// The terminal, where the process has one.
    pub fn pty(&self) -> Option<Pty> {
        self.pty.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Keeps the terminal that the engine has sent.
    pub fn set_pty(&self, pty: Pty) {
        *self.pty.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(pty);
    }

    /// Lets go of the terminal and of every stream, once what was written has been delivered.
    pub async fn close(&self) {
        self.pty.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        self.io().shutdown().await;
        self.logs.close().await;
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Claims the start of this process.
    ///
    /// # Errors
    /// The phase it is in, when that is not [`Phase::Created`].
    pub fn begin_start(&self) -> Result<(), Phase> {
        let mut life = self.life();
        match life.phase {
            Phase::Created => {
                life.phase = Phase::Starting;
                Ok(())
            }
            other => Err(other),
        }
    }

    /// Gives the claim back: the start failed and may be tried again, unless the process has ended by it, which
    /// `say_exit` says. Gives the signals that came meanwhile.
    pub fn start_failed(&self, say_exit: impl FnOnce(Exit)) -> Vec<u32> {
        self.settle(Phase::Created, || (), say_exit);
        std::mem::take(&mut self.life().pending)
    }

    /// Says that it is made, by `say`; when it has ended meanwhile, `say_exit` follows.
    pub fn made(&self, say: impl FnOnce(), say_exit: impl FnOnce(Exit)) {
        self.settle(Phase::Created, say, say_exit);
    }

    /// Says that it runs, by `say`; when it has ended meanwhile, `say_exit` follows. Both are called in order and
    /// at once, so that no other word comes between. Gives the signals that came meanwhile.
    pub fn started(&self, pid: u32, say: impl FnOnce(), say_exit: impl FnOnce(Exit)) -> Vec<u32> {
        self.life().pid = pid;
        self.settle(Phase::Running, say, say_exit);
        std::mem::take(&mut self.life().pending)
    }

    fn settle(&self, phase: Phase, say: impl FnOnce(), say_exit: impl FnOnce(Exit)) {
        let mut life = self.life();
        say();
        if life.phase == Phase::Starting {
            life.phase = phase;
        } else if let Some(exit) = self.exit() {
            say_exit(exit);
        }
        self.settled.notify_waiters();
    }

    /// Waits until no start is under way, at most so long.
    pub async fn wait_started(&self, limit: Duration) {
        let settled = async {
            loop {
                let next = self.settled.notified();
                if self.life().phase != Phase::Starting {
                    return;
                }
                next.await;
            }
        };
        // One that takes longer is the caller's to judge.
        let _ = tokio::time::timeout(limit, settled).await;
    }

    /// Says that it ended, by `say`, unless its start is still under way: then [`Process::started`] will.
    pub fn ended(&self, exit: Exit, say: impl FnOnce(Exit)) {
        let mut life = self.life();
        let starting = life.phase == Phase::Starting;
        life.phase = Phase::Stopped;
        self.settled.notify_waiters();
        let first = self.exit.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(exit);
            first
        });
        if first && !starting {
            say(exit);
        }
    }

    /// Waits until it has ended.
    pub async fn wait(&self) -> Exit {
        let mut exit = self.exit.subscribe();
        loop {
            if let Some(exit) = *exit.borrow_and_update() {
                return exit;
            }
            if exit.changed().await.is_err() {
                // The sender lives in `self`; it cannot have gone.
                std::future::pending::<()>().await;
            }
        }
    }
}
