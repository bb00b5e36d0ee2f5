//! The engine, run as a program with runc's command line: `baton`, or whatever `BinaryName` says.

mod call;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_checkpoint::engine::{Dump, Engine as Freezable};
use baton_fault::{Attempt, Code, Fault, Result};
use serde::{Deserialize, Serialize};
use tokio::sync::RwLock;

use crate::children::{self, Finished, Streams};
use crate::engine::call::Call;
use crate::options::Options;

/// Longest time for a verb that should take milliseconds.
const QUICK: Duration = Duration::from_secs(60);
/// Longest time for a checkpoint or a restore, which move the memory of a container.
const SLOW: Duration = Duration::from_secs(3600);
/// Longest record of an engine that is read, in bytes.
const RECORD_MAX: u64 = 1 << 20;

/// Name of the file in the bundle that says which engine runs the container, for a later `delete` by a shim that
/// was told nothing.
const RECORD: &str = "baton-engine.json";

/// Name of the file in the bundle with the pid of the init.
const INIT_PID: &str = "init.pid";

/// What is in that file once the engine has deleted the container.
const GONE: &[u8] = b"deleted";

/// What a bundle says of the engine that runs its container.
pub enum Recorded {
    /// This one runs it.
    By(Engine),
    /// One has run it and has deleted it.
    Gone,
    /// Nothing that can be read.
    Nothing,
}

/// The engine of one container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Engine {
    program: PathBuf,
    root: PathBuf,
    systemd_cgroup: bool,
    #[serde(default)]
    no_pivot: bool,
    #[serde(default)]
    no_new_keyring: bool,
    id: String,
    bundle: PathBuf,
    /// Held by signals on their way: a container is deleted once they have been answered. Else containerd, which hangs
    /// up on what it has deleted, takes the missing answer for a failure.
    #[serde(skip)]
    signals: Arc<RwLock<()>>,
}

impl Engine {
    /// The engine for container `id` that the options ask for, or `baton` beside the shim; its state is under `root`
    /// where they name no other folder, and below theirs in one for the namespace, as runc's shim has it.
    ///
    /// # Errors
    /// `SYSTEM` when the shim cannot find itself.
    pub fn new(options: &Options, root: PathBuf, namespace: &str, id: &str, bundle: &Path) -> Result<Engine> {
        let program = match &options.binary_name {
            Some(program) => program.clone(),
            None => beside_the_shim("baton")?,
        };
        Ok(Engine {
            program,
            root: options.root.as_ref().map_or(root, |root| root.join(namespace)),
            systemd_cgroup: options.systemd_cgroup,
            no_pivot: options.no_pivot_root,
            no_new_keyring: options.no_new_keyring,
            id: id.to_string(),
            bundle: bundle.to_path_buf(),
            signals: Arc::default(),
        })
    }

    /// The program that it is.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Whether it is Baton's own, as it is installed beside the shim.
    pub fn is_batons(&self) -> bool {
        let own = beside_the_shim("baton").ok().and_then(|own| own.canonicalize().ok());
        own.is_some() && self.program.canonicalize().ok() == own
    }

    /// What is written down in `bundle`.
    pub fn recorded(bundle: &Path) -> Recorded {
        use std::io::Read;
        let mut text = Vec::new();
        let read =
            std::fs::File::open(bundle.join(RECORD)).and_then(|file| file.take(RECORD_MAX).read_to_end(&mut text));
        match read {
            Ok(_) if text == GONE => Recorded::Gone,
            Ok(_) => serde_json::from_slice(&text).map_or(Recorded::Nothing, Recorded::By),
            Err(_) => Recorded::Nothing,
        }
    }

    /// Writes down in the bundle that the engine has deleted the container: the program that containerd has clear up
    /// after the shim need not ask it again, and must not, as there may be another container of that name by then.
    pub fn record_deletion(&self) {
        if let Err(err) = std::fs::write(self.bundle.join(RECORD), GONE) {
            log::warn!("write down that {} is deleted: {err}", self.id);
        }
    }

    /// Writes down in the bundle which engine runs the container.
    ///
    /// # Errors
    /// Of the file operation.
    pub fn record(&self) -> Result<()> {
        let file = self.bundle.join(RECORD);
        let text = serde_json::to_vec(self).map_err(|err| Fault::new(Code::System, "write down the engine", err))?;
        std::fs::write(&file, text).attempt(|| format!("write {}", file.display()))
    }

    /// The same, working in another folder.
    pub fn in_bundle(&self, bundle: &Path) -> Engine {
        Engine { bundle: bundle.to_path_buf(), ..self.clone() }
    }

    /// The bundle of its container.
    pub fn bundle(&self) -> &Path {
        &self.bundle
    }

    fn call(&self, verb: &'static str) -> Call<'_> {
        Call::of(self, verb)
    }

    /// Makes the container, its init waiting to be started, with `streams` or a terminal sent to `console`.
    pub async fn create(&self, streams: Streams, console: Option<&Path>) -> Result<u32> {
        let pid_file = self.bundle.join(INIT_PID);
        let mut call = self.call("create");
        call.command.arg("--bundle").arg(&self.bundle).arg("--pid-file").arg(&pid_file);
        if self.no_pivot {
            call.command.arg("--no-pivot");
        }
        if self.no_new_keyring {
            call.command.arg("--no-new-keyring");
        }
        with_console(&mut call.command, console);
        call.command.arg(&self.id);
        call.with_streams(streams, QUICK).await?;
        read_pid(&pid_file)
    }

    /// Restores the container from CRIU's images; its processes run when this returns.
    pub async fn restore(&self, images: &Path, work: &Path, streams: Streams, console: Option<&Path>) -> Result<u32> {
        let pid_file = self.bundle.join(INIT_PID);
        let mut call = self.call("restore");
        call.command.arg("--bundle").arg(&self.bundle).arg("--image-path").arg(images).arg("--work-path").arg(work);
        call.command.arg("--pid-file").arg(&pid_file).arg("--detach").arg("--file-locks");
        if self.no_pivot {
            call.command.arg("--no-pivot");
        }
        with_console(&mut call.command, console);
        call.command.arg(&self.id);
        call.with_streams(streams, SLOW).await?;
        read_pid(&pid_file)
    }

    /// Starts the made container's program.
    pub async fn start(&self) -> Result<()> {
        self.quick("start").await.map(drop)
    }

    /// Runs one more process in the container, described by the OCI process in `spec`.
    pub async fn exec(&self, spec: &Path, pid_file: &Path, streams: Streams, console: Option<&Path>) -> Result<u32> {
        let mut call = self.call("exec");
        call.command.arg("--process").arg(spec).arg("--pid-file").arg(pid_file).arg("--detach");
        with_console(&mut call.command, console);
        call.command.arg(&self.id);
        call.with_streams(streams, QUICK).await?;
        read_pid(pid_file)
    }

    /// Signals the init, or every process of the container.
    pub async fn kill(&self, signal: u32, all: bool) -> Result<()> {
        let _on_its_way = self.signals.read().await;
        let mut call = self.call("kill");
        if all {
            call.command.arg("--all");
        }
        call.command.arg(&self.id).arg(signal.to_string());
        call.finish(QUICK).await.map(drop)
    }

    /// Removes the container's cgroup and state; with `force`, kills what still runs.
    pub async fn delete(&self, force: bool) -> Result<()> {
        drop(self.signals.write().await);
        let mut call = self.call("delete");
        if force {
            call.command.arg("--force");
        }
        call.command.arg(&self.id);
        call.finish(QUICK).await.map(drop)
    }

    /// Sets new limits, given as the JSON of OCI's Linux resources.
    pub async fn update(&self, resources: &[u8]) -> Result<()> {
        let mut call = self.call("update");
        call.command.args(["--resources", "-"]).arg(&self.id);
        call.finish_with_input(Some(resources.to_vec()), QUICK).await.map(drop)
    }

    async fn quick(&self, verb: &'static str) -> Result<Finished> {
        let mut call = self.call(verb);
        call.command.arg(&self.id);
        call.finish(QUICK).await
    }
}

#[async_trait]
impl Freezable for Engine {
    async fn pause(&self) -> Result<()> {
        self.quick("pause").await.map(drop)
    }

    async fn resume(&self) -> Result<()> {
        self.quick("resume").await.map(drop)
    }

    async fn kill_all(&self) -> Result<()> {
        self.kill(9, true).await
    }

    async fn dump(&self, dump: &Dump, limit: Duration) -> Result<()> {
        let mut call = self.call("checkpoint");
        call.command.arg("--image-path").arg(&dump.images).arg("--work-path").arg(&dump.work).arg("--file-locks");
        if dump.leave_running {
            call.command.arg("--leave-running");
        }
        if dump.open_tcp {
            call.command.arg("--tcp-established");
        }
        if dump.external_unix_sockets {
            call.command.arg("--ext-unix-sk");
        }
        if dump.terminal {
            call.command.arg("--shell-job");
        }
        for namespace in &dump.empty_namespaces {
            call.command.arg("--empty-ns").arg(namespace);
        }
        if let Some(mode) = &dump.cgroups_mode {
            call.command.arg("--manage-cgroups-mode").arg(mode);
        }
        call.command.arg(&self.id);
        let outcome = call.finish(limit).await.map(drop);
        if outcome.is_err() {
            // An engine that was killed leaves CRIU at work; it has to let go of the processes before they may run.
            children::end_orphans("criu").await?;
        }
        outcome
    }
}

/// A program of Baton that is installed beside the shim.
///
/// # Errors
/// `SYSTEM` when the shim cannot find itself.
pub fn beside_the_shim(name: &str) -> Result<PathBuf> {
    let shim = std::env::current_exe().attempt(|| "find the shim's own folder")?;
    Ok(shim.with_file_name(name))
}

/// The pid of a container's init, as the engine wrote it down; none when there is no such file.
pub fn init_pid(bundle: &Path) -> Option<u32> {
    read_pid(&bundle.join(INIT_PID)).ok()
}

fn with_console(command: &mut Command, console: Option<&Path>) {
    if let Some(console) = console {
        command.arg("--console-socket").arg(console);
    }
}

fn read_pid(path: &Path) -> Result<u32> {
    let text = std::fs::read_to_string(path).attempt(|| format!("read the pid file {}", path.display()))?;
    text.trim()
        .parse()
        .map_err(|_| Fault::new(Code::Engine, format!("read the pid file {}", path.display()), "it holds no number"))
}
