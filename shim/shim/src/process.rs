//! One process that containerd knows by name: a container's init or one that was executed in it.

use std::sync::{Mutex, MutexGuard};

use containerd_shim::asynchronous::io::{IoTasks, Pty, Stdio};
use time::OffsetDateTime;
use tokio::sync::watch;

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
}

/// A process that containerd knows by name.
pub struct Process {
    /// The name: the exec id, empty for the init.
    pub exec_id: String,
    /// Which streams containerd wants.
    pub stdio: Stdio,
    /// The copies between the process's pipes and containerd's FIFOs.
    pub io: IoTasks,
    pty: Mutex<Option<Pty>>,
    life: Mutex<Life>,
    exit: watch::Sender<Option<Exit>>,
}

impl Process {
    /// A process that is not running yet.
    pub fn new(exec_id: &str, stdio: Stdio) -> Process {
        Process {
            exec_id: exec_id.to_string(),
            stdio,
            io: IoTasks::default(),
            pty: Mutex::new(None),
            life: Mutex::new(Life { phase: Phase::Created, pid: 0 }),
            exit: watch::Sender::new(None),
        }
    }

    /// Its life, held only for the moment: nothing slow is done with it.
    pub fn life(&self) -> MutexGuard<'_, Life> {
        // A panic while it was held leaves two plain values, both valid.
        self.life.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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
        self.io.shutdown().await;
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

    /// Gives the claim back: the start failed and may be tried again.
    pub fn start_failed(&self) {
        let mut life = self.life();
        if life.phase == Phase::Starting {
            life.phase = Phase::Created;
        }
    }

    /// Says that it runs, by `say`; when it has ended meanwhile, `say_exit` follows. Both are called in order and
    /// at once, so that no other word comes between.
    pub fn started(&self, pid: u32, say: impl FnOnce(), say_exit: impl FnOnce(Exit)) {
        let mut life = self.life();
        life.pid = pid;
        say();
        if life.phase == Phase::Starting {
            life.phase = Phase::Running;
        } else if let Some(exit) = self.exit() {
            say_exit(exit);
        }
    }

    /// Says that it ended, by `say`, unless its start is still under way: then [`Process::started`] will.
    pub fn ended(&self, exit: Exit, say: impl FnOnce(Exit)) {
        let mut life = self.life();
        let starting = life.phase == Phase::Starting;
        life.phase = Phase::Stopped;
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
