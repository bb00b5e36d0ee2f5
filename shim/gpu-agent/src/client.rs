//! The shim's side: starts the agent, sends calls, waits for answers no longer than a deadline.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_devices::GpuUuid;
use baton_fault::{Code, Fault, Result};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};

use crate::protocol::{Answer, Call, GPU_PAIRS_SINCE, Hello, LINE_MAX, Request};
use crate::refusal::{INVALID_VALUE, NOT_INITIALIZED};
use crate::{CudaState, DriverRefusal};

/// How long `cuInit` may take: some seconds on a node with eight cards, more when they are not kept awake.
const START_DEADLINE: Duration = Duration::from_secs(120);
/// How long a question about a process may take. It hangs when the process is frozen.
const QUERY_DEADLINE: Duration = Duration::from_secs(10);
/// How much longer than its own time limit the driver may take to answer a lock.
const LOCK_GRACE: Duration = Duration::from_secs(10);
/// Requests that wait to be written.
const QUEUE: usize = 256;

/// A running agent. Clones share it; the last one that goes ends it.
#[derive(Clone)]
pub struct Agent {
    inner: Arc<Inner>,
}

struct Inner {
    version: u32,
    next: AtomicU64,
    lines: mpsc::Sender<Vec<u8>>,
    pending: Arc<Mutex<Pending>>,
    // Killed when dropped.
    child: Child,
}

/// The calls that wait for an answer; `None` once the agent has ended.
type Pending = Option<HashMap<u64, oneshot::Sender<Answer>>>;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The driver refused.
    Refused(DriverRefusal),
    /// The deadline passed (`DEADLINE`, the outcome is unknown), or the agent is gone (`CR_HELPER_MISSING`).
    Failed(Fault),
}

impl From<CallError> for Fault {
    fn from(err: CallError) -> Fault {
        match err {
            CallError::Refused(refusal) => refusal.into(),
            CallError::Failed(fault) => fault,
        }
    }
}

impl Agent {
    /// Starts `program` (`baton-gpu-agent`, an absolute path) on the driver library `libcuda`.
    ///
    /// # Errors
    /// `CR_HELPER_MISSING` when it does not start, `CR_DRIVER` when the driver refuses to.
    pub async fn start(program: &Path, libcuda: &Path) -> Result<Agent> {
        let starting = || format!("start the GPU agent {}", program.display());
        let missing = |why: String| {
            Fault::new(Code::CrHelperMissing, starting(), why).advise("install all programs of Baton in one directory")
        };
        // The driver reads its environment (CUDA_VISIBLE_DEVICES, CUDA_MPS_*), and so does the loader.
        let mut child = Command::new(program)
            .arg("--libcuda")
            .arg(libcuda)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|err| missing(err.to_string()))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(missing("it has no standard input or output".into()));
        };
        let mut stdout = BufReader::new(stdout);
        let hello = tokio::time::timeout(START_DEADLINE, line(&mut stdout)).await;
        let hello = hello
            .map_err(|_| {
                Fault::new(Code::Deadline, starting(), format!("no answer in {} s", START_DEADLINE.as_secs()))
                    .advise("look at the kernel's log: the driver hangs")
            })?
            .ok_or_else(|| missing("it ended at once".into()))?;
        let version = match serde_json::from_slice(&hello) {
            Ok(Hello::Ready(version)) => version,
            Ok(Hello::Refused { code, name }) => {
                return Err(Fault::new(Code::CrDriver, starting(), format!("cuInit: {name} ({code})"))
                    .advise("look at the driver and its device nodes on this node"));
            }
            Ok(Hello::Failed(why)) => {
                return Err(Fault::parse(&why).unwrap_or_else(|| missing(why)).during(starting()));
            }
            Err(err) => return Err(missing(format!("it does not speak as the GPU agent does: {err}"))),
        };
        let pending = Arc::new(Mutex::new(Some(HashMap::new())));
        let (lines, queue) = mpsc::channel(QUEUE);
        tokio::spawn(write(stdin, queue));
        tokio::spawn(read(stdout, Arc::clone(&pending)));
        Ok(Agent { inner: Arc::new(Inner { version, next: AtomicU64::new(1), lines, pending, child }) })
    }

    /// The newest CUDA that the driver speaks: 1000 × major + 10 × minor.
    pub fn cuda_version(&self) -> u32 {
        self.inner.version
    }

    /// Whether it still answers; one that has ended never does again, and another has to be started.
    pub fn is_alive(&self) -> bool {
        open(&self.inner.pending).is_some()
    }

    /// The agent's process id; `None` once it has ended and was waited for.
    pub fn pid(&self) -> Option<u32> {
        self.inner.child.id()
    }

    /// The state of a CUDA process. The process must not be frozen, or the question hangs.
    ///
    /// # Errors
    /// As [`Agent::call`].
    pub async fn state(&self, pid: u32) -> Result<CudaState> {
        let state = self.call(Call::State, pid, 0, &[], QUERY_DEADLINE).await?;
        Ok(CudaState::from_raw(u32::try_from(state).unwrap_or(u32::MAX)))
    }

    /// The driver's own thread in a process; `None` when it is no CUDA process.
    ///
    /// # Errors
    /// As [`Agent::call`].
    pub async fn restore_thread(&self, pid: u32) -> Result<Option<i32>> {
        match self.call(Call::RestoreThread, pid, 0, &[], QUERY_DEADLINE).await {
            Ok(thread) => Ok(i32::try_from(thread).ok()),
            Err(CallError::Refused(DriverRefusal { code: INVALID_VALUE | NOT_INITIALIZED, .. })) => Ok(None),
            Err(err) => Err(err.into()),
        }
    }

    /// Blocks the process's CUDA calls once those submitted are done; the driver waits `timeout` for that.
    ///
    /// # Errors
    /// `CR_LOCK_TIMEOUT` when they are not done by then: the process runs on. Else as [`Agent::call`].
    pub async fn lock(&self, pid: u32, timeout: Duration) -> Result<()> {
        // 0 would mean for ever.
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1);
        self.call(Call::Lock, pid, timeout_ms, &[], timeout + LOCK_GRACE).await?;
        Ok(())
    }

    /// Moves the GPU memory of a locked process to host memory and lets the card go.
    ///
    /// # Errors
    /// As [`Agent::call`].
    pub async fn checkpoint(&self, pid: u32, deadline: Duration) -> Result<()> {
        self.call(Call::Checkpoint, pid, 0, &[], deadline).await?;
        Ok(())
    }

    /// Moves it back; `map` names, for every card of the checkpoint, the card that takes its place, and may be
    /// empty when all stay the same. Never before there is room: a restore that fails for lack of memory ruins the process.
    ///
    /// # Errors
    /// `CR_UNSUPPORTED` when cards change and the driver is too old for that. Else as [`Agent::call`].
    pub async fn restore(&self, pid: u32, map: &[(GpuUuid, GpuUuid)], deadline: Duration) -> Result<()> {
        if map.iter().any(|(old, new)| old != new) && self.inner.version < GPU_PAIRS_SINCE {
            let why = format!("the driver speaks CUDA {}, that needs {GPU_PAIRS_SINCE}", self.inner.version);
            return Err(Fault::new(Code::CrUnsupported, format!("restore CUDA process {pid} on another card"), why)
                .advise("install driver 580 or newer, or restore on the same cards"));
        }
        self.call(Call::Restore, pid, 0, map, deadline).await?;
        Ok(())
    }

    /// Lets the CUDA calls of a locked process go on.
    ///
    /// # Errors
    /// As [`Agent::call`].
    pub async fn unlock(&self, pid: u32, deadline: Duration) -> Result<()> {
        self.call(Call::Unlock, pid, 0, &[], deadline).await?;
        Ok(())
    }

    /// One call, with the driver's own error in a type.
    ///
    /// # Errors
    /// [`CallError`]. After `DEADLINE` the call may still take effect later: read the state first.
    pub async fn call(
        &self,
        call: Call,
        pid: u32,
        timeout_ms: u32,
        map: &[(GpuUuid, GpuUuid)],
        deadline: Duration,
    ) -> std::result::Result<i64, CallError> {
        let id = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let request = Request { id, call, pid, timeout_ms, map: map.to_vec() };
        let answer = match tokio::time::timeout(deadline, self.exchange(&request)).await {
            Ok(answer) => answer.map_err(CallError::Failed)?,
            Err(_) => {
                let why = format!("no answer in {} ms, outcome unknown", deadline.as_millis());
                return Err(CallError::Failed(
                    Fault::new(Code::Deadline, attempt(&request), why)
                        .advise("read the state of the process before anything else; a frozen process never answers"),
                ));
            }
        };
        match answer.code {
            0 => Ok(answer.value),
            code => Err(CallError::Refused(DriverRefusal { code, name: answer.name, call, pid })),
        }
    }

    async fn exchange(&self, request: &Request) -> Result<Answer> {
        let gone = |_| {
            Fault::new(Code::CrHelperMissing, attempt(request), "the GPU agent ended, outcome unknown")
                .advise("read the state of the process through a new agent; look at the kernel's log")
        };
        let mut text = serde_json::to_vec(request).map_err(|err| Fault::new(Code::System, attempt(request), err))?;
        text.push(b'\n');
        let (sender, receiver) = oneshot::channel();
        let _waiting = Waiting::new(&self.inner.pending, request.id, sender).ok_or_else(|| gone(()))?;
        self.inner.lines.send(text).await.map_err(|_| gone(()))?;
        receiver.await.map_err(|_| gone(()))
    }
}

fn attempt(request: &Request) -> String {
    format!("{} of CUDA process {}", request.call, request.pid)
}

/// A call's entry among the pending ones; it goes when nobody waits any more.
struct Waiting<'a> {
    pending: &'a Mutex<Pending>,
    id: u64,
}

impl<'a> Waiting<'a> {
    fn new(pending: &'a Mutex<Pending>, id: u64, sender: oneshot::Sender<Answer>) -> Option<Waiting<'a>> {
        open(pending).as_mut()?.insert(id, sender);
        Some(Waiting { pending, id })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(calls) = open(self.pending).as_mut() {
            calls.remove(&self.id);
        }
    }
}

/// The map is whole after every statement, so a panic elsewhere does not spoil it.
fn open(pending: &Mutex<Pending>) -> MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes whole lines, so that a caller who goes away leaves no half of one. Ends with the last [`Agent`], and
/// the agent's standard input with it.
async fn write(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(text) = queue.recv().await {
        if stdin.write_all(&text).await.is_err() {
            return;
        }
    }
}

/// Hands answers to who waits for them, until the agent ends; then nobody waits any more.
async fn read(mut stdout: BufReader<ChildStdout>, pending: Arc<Mutex<Pending>>) {
    while let Some(text) = line(&mut stdout).await {
        let Ok(answer) = serde_json::from_slice::<Answer>(&text) else { break };
        let waiting = open(&pending).as_mut().and_then(|calls| calls.remove(&answer.id));
        if let Some(waiting) = waiting {
            // An answer after the deadline interests nobody.
            let _ = waiting.send(answer);
        }
    }
    *open(&pending) = None;
}

/// The next line; `None` at the end, and for one that is too long.
async fn line(input: &mut BufReader<ChildStdout>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    input.take(LINE_MAX as u64).read_until(b'\n', &mut text).await.ok()?;
    text.ends_with(b"\n").then_some(text)
}
