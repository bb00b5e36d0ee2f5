//! The promise, with a fault at every call: whichever call of the world fails, the job is afterwards in the state in
//! which it was before, and nothing of the save is left.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use baton_config::Settings;
use baton_devices::{Card, CardUsage, ComputeCapability, GpuUuid};
use baton_fault::{Code, Fault, Result};

use super::{Job, checkpoint, resume};
use crate::cgroup::Cgroup;
use crate::engine::{Dump, Engine};
use crate::gpu::{CudaState, Gpu};
use crate::journal;
use crate::publish::{Containerd, Order, Report, Worker};

const CARD: &str = "GPU-11111111-2222-3333-4444-555555555555";
const LIMIT: u64 = 1 << 30;
const ON_CARD: u64 = 512 << 20;

/// A container of two CUDA processes on one card, with a fault at call number `fail_at`.
struct World {
    state: Mutex<State>,
    freezer: PathBuf,
    fail_at: usize,
    init: u32,
    pids: [u32; 2],
}

#[derive(Debug)]
struct State {
    calls: usize,
    cuda: [CudaState; 2],
    said: Vec<String>,
}

impl World {
    /// Counts a call; a call that fails may have changed nothing.
    fn call(&self, what: &str) -> Result<std::sync::MutexGuard<'_, State>> {
        let mut state = self.state.lock().expect("no panic while held");
        let number = state.calls;
        state.calls += 1;
        state.said.push(what.to_string());
        if number == self.fail_at {
            return Err(Fault::new(Code::CrDriver, what, "the fault that was ordered"));
        }
        Ok(state)
    }

    fn change(&self, what: &str, pid: u32, from: CudaState, to: CudaState) -> Result<()> {
        let mut state = self.call(&format!("{what} {}", self.index(pid)))?;
        assert!(!self.is_frozen(), "{what} on a frozen process would hang: {:?}", state.said);
        let at = self.index(pid);
        if state.cuda[at] != from {
            return Err(Fault::new(Code::CrDriver, what, format!("illegal state {}", state.cuda[at])));
        }
        state.cuda[at] = to;
        Ok(())
    }

    fn freeze(&self, word: &str) {
        std::fs::write(&self.freezer, word).expect("freezer");
    }

    fn is_frozen(&self) -> bool {
        std::fs::read_to_string(&self.freezer).expect("freezer").trim() == "FROZEN"
    }

    fn index(&self, pid: u32) -> usize {
        self.pids.iter().position(|known| *known == pid).expect("a process of the container")
    }
}

#[async_trait]
impl Gpu for World {
    async fn is_cuda(&self, pid: u32) -> Result<bool> {
        self.call("is cuda").map(|_| self.pids.contains(&pid))
    }
    async fn state(&self, pid: u32) -> Result<CudaState> {
        let state = self.call("state")?;
        assert!(!self.is_frozen(), "state of a frozen process would hang: {:?}", state.said);
        Ok(state.cuda[self.index(pid)])
    }
    async fn lock(&self, pid: u32, _: Duration) -> Result<()> {
        self.change("lock", pid, CudaState::Running, CudaState::Locked)
    }
    async fn checkpoint(&self, pid: u32, _: Duration) -> Result<()> {
        self.change("checkpoint", pid, CudaState::Locked, CudaState::Checkpointed)
    }
    async fn restore(&self, pid: u32, map: &[(GpuUuid, GpuUuid)], _: Duration) -> Result<()> {
        assert!(map.is_empty(), "back onto the same card");
        self.change("restore", pid, CudaState::Checkpointed, CudaState::Locked)
    }
    async fn unlock(&self, pid: u32, _: Duration) -> Result<()> {
        self.change("unlock", pid, CudaState::Locked, CudaState::Running)
    }
    async fn usage(&self, cards: &[GpuUuid]) -> Result<Vec<CardUsage>> {
        let state = self.call("usage")?;
        let on = |at: usize| state.cuda[at] != CudaState::Checkpointed;
        let processes = self.pids.iter().enumerate().filter(|(at, _)| on(*at)).map(|(_, pid)| (*pid, Some(ON_CARD)));
        let processes: Vec<_> = processes.collect();
        let used = ON_CARD * processes.len() as u64;
        let total = 80 << 30;
        Ok(cards
            .iter()
            .map(|uuid| CardUsage { uuid: *uuid, total, free: total - used, used, processes: processes.clone() })
            .collect())
    }
}

#[async_trait]
impl Engine for World {
    async fn pause(&self) -> Result<()> {
        self.call("pause").map(|_| self.freeze("FROZEN"))
    }
    async fn resume(&self) -> Result<()> {
        self.call("resume").map(|_| self.freeze("THAWED"))
    }
    async fn kill_all(&self) -> Result<()> {
        self.call("kill").map(drop)
    }
    async fn dump(&self, _: &Dump, _: Duration) -> Result<()> {
        let state = self.call("dump")?;
        assert!(self.is_frozen(), "dumped while it ran");
        assert_eq!(state.cuda, [CudaState::Checkpointed; 2], "dumped with state on the card");
        Ok(())
    }
}

#[async_trait]
impl Worker for World {
    async fn work(&self, _: &Order) -> Result<Report> {
        self.call("work").map(|_| Report::default())
    }
}

/// A process to be saved; killed when dropped.
struct Process(Child);

impl Process {
    fn start() -> Process {
        Process(Command::new("sleep").arg("1000").spawn().expect("sleep"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }
}

/// Folders and files that a save takes.
struct Place {
    _folder: tempfile::TempDir,
    bundle: PathBuf,
    limit: PathBuf,
    freezer: PathBuf,
    cgroup: Cgroup,
    settings: Settings,
    containerd: Containerd,
    cards: Vec<Card>,
    _processes: [Process; 2],
    pids: [u32; 2],
}

impl Place {
    fn make() -> Place {
        let folder = tempfile::tempdir().expect("folder");
        let bundle = folder.path().join("bundle");
        let members = folder.path().join("cgroup");
        std::fs::create_dir(&bundle).expect("bundle");
        std::fs::create_dir(&members).expect("cgroup");
        let processes = [Process::start(), Process::start()];
        let pids = [processes[0].0.id(), processes[1].0.id()];
        std::fs::write(members.join("cgroup.procs"), format!("{}\n{}\n", pids[0], pids[1])).expect("members");
        let limit = folder.path().join("memory.max");
        std::fs::write(&limit, LIMIT.to_string()).expect("limit");
        let mut settings = Settings::default();
        settings.paths.run = folder.path().join("run");
        settings.paths.staging = folder.path().join("staging");
        let containerd = Containerd { socket: folder.path().join("none.sock"), namespace: "default".into() };
        let card = Card {
            index: 0,
            uuid: CARD.parse().expect("uuid"),
            model: "A card".into(),
            compute_capability: ComputeCapability { major: 9, minor: 0 },
            memory_total: 80 << 30,
            pci_bus_id: "00000000:01:00.0".into(),
            minor: 0,
            mig_enabled: false,
        };
        Place {
            freezer: members.join("freezer.state"),
            cgroup: Cgroup::in_folder(members, Some(limit.clone())),
            _folder: folder,
            bundle,
            limit,
            settings,
            containerd,
            cards: vec![card],
            _processes: processes,
            pids,
        }
    }

    fn world(&self, fail_at: usize, frozen: bool) -> World {
        let state = State { calls: 0, cuda: [CudaState::Running; 2], said: Vec::new() };
        let freezer = self.freezer.clone();
        let world = World { state: Mutex::new(state), freezer, fail_at, init: self.pids[0], pids: self.pids };
        world.freeze(if frozen { "FROZEN" } else { "THAWED" });
        world
    }

    fn job<'a>(&'a self, world: &'a World, frozen: bool) -> Job<'a> {
        Job {
            id: "job",
            bundle: &self.bundle,
            init: world.init,
            cgroup: self.cgroup.clone(),
            frozen,
            cards: &self.cards,
            driver: None,
            mounts: &[],
            criu: "4.2",
            engine: world,
            gpu: Some(world),
            worker: world,
            containerd: &self.containerd,
            settings: &self.settings,
        }
    }

    fn as_it_was(&self, world: &World, frozen: bool, fail_at: usize) {
        let state = world.state.lock().expect("no panic while held");
        assert_eq!(state.cuda, [CudaState::Running; 2], "fault at call {fail_at}: {:?}", state.said);
        assert_eq!(world.is_frozen(), frozen, "fault at call {fail_at}: {:?}", state.said);
        assert_eq!(std::fs::read_to_string(&self.limit).expect("limit"), LIMIT.to_string(), "fault at call {fail_at}");
        assert!(journal::leftovers(&self.bundle).is_empty(), "fault at call {fail_at}");
        assert!(!self.bundle.join("baton-journal.jsonl").exists(), "fault at call {fail_at}");
    }
}

fn dump() -> Dump {
    let (images, work) = (Path::new("/nowhere").to_path_buf(), Path::new("/nowhere").to_path_buf());
    Dump { images, work, leave_running: true, ..Dump::default() }
}

#[tokio::test(flavor = "current_thread")]
async fn a_paused_job_without_a_gpu_stays_paused_and_nothing_is_held() {
    let place = Place { cards: Vec::new(), ..Place::make() };
    let world = place.world(NEVER, true);
    world.state.lock().expect("no panic").cuda = [CudaState::Checkpointed; 2];
    let held = checkpoint(&place.job(&world, true), &dump()).await.expect("checkpoint");
    assert!(held.is_none(), "nothing is off a card: a plain resume thaws it");
    let state = world.state.lock().expect("no panic");
    assert!(world.is_frozen());
    assert_eq!(state.said, ["dump"]);
}

/// A call number that no run reaches.
const NEVER: usize = usize::MAX;

#[tokio::test(flavor = "current_thread")]
async fn a_running_job_is_taken_off_the_card_and_brought_back() {
    let place = Place::make();
    let world = place.world(NEVER, false);
    let held = checkpoint(&place.job(&world, false), &dump()).await.expect("checkpoint");
    assert!(held.is_none(), "a job that ran goes on at once");
    place.as_it_was(&world, false, NEVER);
    let said = &world.state.lock().expect("no panic").said;
    let order: Vec<&str> =
        said.iter().map(String::as_str).filter(|call| !["state", "usage", "is cuda"].contains(call)).collect();
    let on = ["lock 0", "lock 1", "checkpoint 0", "checkpoint 1", "pause", "dump"];
    let back = ["resume", "restore 1", "restore 0", "unlock 1", "unlock 0"];
    assert_eq!(order, [&on[..], &back[..]].concat());
}

#[tokio::test(flavor = "current_thread")]
async fn whichever_call_fails_the_job_goes_on() {
    let place = Place::make();
    let world = place.world(NEVER, false);
    checkpoint(&place.job(&world, false), &dump()).await.expect("checkpoint");
    let said = world.state.lock().expect("no panic").said.clone();
    let dumped = said.iter().position(|call| call == "dump").expect("dumped");
    for fail_at in 0..=dumped {
        let world = place.world(fail_at, false);
        let fault = checkpoint(&place.job(&world, false), &dump()).await.err().expect("the fault is told");
        assert!(fault.to_string().contains("the fault that was ordered"), "{fault}");
        assert!(fault.to_string().contains("the container goes on"), "{fault}");
        place.as_it_was(&world, false, fail_at);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_failure_on_the_way_back_is_tried_once_more() {
    let place = Place::make();
    let world = place.world(NEVER, false);
    checkpoint(&place.job(&world, false), &dump()).await.expect("checkpoint");
    let said = world.state.lock().expect("no panic").said.clone();
    let resumed = said.iter().position(|call| call == "resume").expect("resumed");
    for fail_at in resumed..said.len() {
        let world = place.world(fail_at, false);
        let outcome = checkpoint(&place.job(&world, false), &dump()).await;
        // Where the engine refuses to thaw, the kernel is told.
        assert_eq!(outcome.is_err(), fail_at != resumed, "fault at call {fail_at} is told");
        place.as_it_was(&world, false, fail_at);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_paused_job_stays_paused_until_it_is_resumed() {
    let place = Place::make();
    let world = place.world(NEVER, true);
    let job = place.job(&world, true);
    let held = checkpoint(&job, &dump()).await.expect("checkpoint").expect("held");
    {
        let state = world.state.lock().expect("no panic");
        assert!(world.is_frozen());
        assert_eq!(state.cuda, [CudaState::Checkpointed; 2]);
    }
    resume(&job, held).await.map_err(|(fault, _)| fault).expect("resume");
    place.as_it_was(&world, false, NEVER);
}

#[tokio::test(flavor = "current_thread")]
async fn whichever_call_fails_a_paused_job_stays_paused() {
    let place = Place::make();
    let world = place.world(NEVER, true);
    let job = place.job(&world, true);
    let held = checkpoint(&job, &dump()).await.expect("checkpoint").expect("held");
    let dumped = world.state.lock().expect("no panic").calls;
    resume(&job, held).await.map_err(|(fault, _)| fault).expect("resume");
    for fail_at in 0..dumped {
        let world = place.world(fail_at, true);
        let outcome = checkpoint(&place.job(&world, true), &dump()).await;
        assert!(outcome.is_err(), "fault at call {fail_at} is told");
        place.as_it_was(&world, true, fail_at);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_resume_that_fails_can_be_tried_again() {
    let place = Place::make();
    let world = place.world(NEVER, true);
    let job = place.job(&world, true);
    let held = checkpoint(&job, &dump()).await.expect("checkpoint").expect("held");
    // The engine's refusal to thaw is overruled; what is asked after it counts.
    let before = world.state.lock().expect("no panic").calls + 1;
    resume(&job, held).await.map_err(|(fault, _)| fault).expect("resume");
    let after = world.state.lock().expect("no panic").calls;
    for fail_at in before..after {
        let world = place.world(fail_at, true);
        let job = place.job(&world, true);
        let held = checkpoint(&job, &dump()).await.expect("checkpoint").expect("held");
        let (_, back) = resume(&job, held).await.expect_err("the fault is told");
        resume(&job, back.expect("it can be tried again")).await.map_err(|(fault, _)| fault).expect("second try");
        place.as_it_was(&world, false, fail_at);
    }
}
