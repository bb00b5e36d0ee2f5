//! The cgroup of a container, on version 1, version 2 or both.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use baton_cgroup::Cgroups;
use baton_fault::{Attempt, Code, Fault, Result};
use libcgroups::common::{
    AnyCgroupManager, CGROUP_PROCS, CgroupConfig, CgroupManager, CgroupSetup, ControllerOpt, DEFAULT_CGROUP_ROOT,
    FreezerState,
};
use libcontainer::container::Container;
use nix::unistd::Pid;
use oci_spec::runtime::{LinuxResources, Spec};

use self::hierarchies::Hierarchies;
use crate::container::{chain, engine};
use crate::process::wait_until;
use crate::{device_filter, kill};

mod freezer;
mod hierarchies;
mod limits;
mod tree;

/// Longest wait for killed processes to leave a cgroup.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(10);

/// Deepest nesting of cgroups below a container's that is looked into.
const DEPTH_MAX: usize = 32;

/// The cgroup of one container.
pub(crate) struct Cgroup {
    /// The path that the spec names.
    path: PathBuf,
    folders: Vec<PathBuf>,
    freezer: Option<PathBuf>,
    rule: Rule,
}

/// Who makes the cgroup and how it is limited.
enum Rule {
    /// Version 1: a folder in each hierarchy.
    Legacy(Hierarchies),
    /// Version 2: one folder, or a unit of systemd.
    Unified(Box<AnyCgroupManager>),
}

impl Cgroup {
    /// The cgroup of an existing container.
    pub(crate) fn of(container: &Container) -> Result<Cgroup> {
        let what = || format!("find the cgroup of {}", container.id());
        let path = container.spec().map_err(|err| engine(what(), &err))?.cgroup_path;
        Cgroup::open(&path, container.id(), container.systemd())
    }

    /// The cgroup that a spec asks for.
    pub(crate) fn asked_for(spec: &Spec, id: &str, systemd: bool) -> Result<Cgroup> {
        let path = spec.linux().as_ref().and_then(|linux| linux.cgroups_path().clone());
        Cgroup::open(&libcontainer::utils::get_cgroup_path(&path, id), id, systemd)
    }

    /// The cgroup of that path.
    pub(crate) fn open(path: &Path, id: &str, systemd: bool) -> Result<Cgroup> {
        let failed = |why: String| {
            Fault::new(Code::System, format_args!("open cgroup {}", path.display()), why)
                .advise("mount the cgroup filesystems at /sys/fs/cgroup")
        };
        let below = path.strip_prefix("/").unwrap_or(path);
        // No path of a spec leads out of the hierarchy.
        if below.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(Fault::new(Code::Bundle, format_args!("open cgroup {}", path.display()), "not a path within")
                .advise("give linux.cgroupsPath without `..`"));
        }
        let setup = libcgroups::common::get_cgroup_setup().map_err(|err| failed(chain(&err)))?;
        if !matches!(setup, CgroupSetup::Unified) {
            let hierarchies = Hierarchies::here()?;
            let freezer = hierarchies.of("freezer").map(|mount| mount.join(below));
            let folders = hierarchies.mounts().map(|mount| mount.join(below)).collect();
            return Ok(Cgroup { path: path.to_owned(), folders, freezer, rule: Rule::Legacy(hierarchies) });
        }
        let config =
            CgroupConfig { cgroup_path: path.to_owned(), systemd_cgroup: systemd, container_name: id.to_owned() };
        let manager = libcgroups::common::create_cgroup_manager(config).map_err(|err| failed(chain(&err)))?;
        let folder = Path::new(DEFAULT_CGROUP_ROOT).join(below);
        Ok(Cgroup {
            path: path.to_owned(),
            freezer: Some(folder.clone()),
            folders: vec![folder],
            rule: Rule::Unified(Box::new(manager)),
        })
    }

    /// The folder that freezes the container.
    pub(crate) fn freezer(&self) -> Option<&Path> {
        self.freezer.as_deref()
    }

    /// The folder that holds the files of a controller (`memory`); with version 2 the one for all. `None` where the
    /// controller is not mounted.
    pub(crate) fn controller(&self, name: &str) -> Option<PathBuf> {
        let below = self.path.strip_prefix("/").unwrap_or(&self.path);
        match &self.rule {
            Rule::Legacy(hierarchies) => hierarchies.of(name).map(|mount| mount.join(below)),
            Rule::Unified(_) => self.folders.first().cloned(),
        }
    }

    /// The hierarchies of version 1 on this host, by the names of their mounts in /sys/fs/cgroup.
    pub(crate) fn hierarchies(&self) -> Vec<String> {
        let Rule::Legacy(hierarchies) = &self.rule else { return Vec::new() };
        let root = Path::new(DEFAULT_CGROUP_ROOT);
        let controlled = hierarchies.mounts().filter_map(|mount| mount.strip_prefix(root).ok()?.to_str());
        let mut names: Vec<String> = controlled.map(str::to_owned).collect();
        if let Ok(groups) = Cgroups::ours() {
            let named = groups.memberships().filter_map(|membership| membership.name());
            names.extend(named.filter(|name| root.join(name).is_dir()).map(str::to_owned));
        }
        names.retain(|name| !name.is_empty() && !name.contains('/'));
        names.sort();
        names
    }

    /// The container's folder of a hierarchy of version 1, by the name of its mount in /sys/fs/cgroup. Of one without
    /// a controller (systemd's) containers have no group of their own; they are where we are.
    pub(crate) fn hierarchy(&self, name: &str) -> Option<PathBuf> {
        if self.is_unified() || name.is_empty() || name.contains('/') {
            return None;
        }
        let mount = Path::new(DEFAULT_CGROUP_ROOT).join(name);
        let own = self.folders.iter().find(|folder| folder.starts_with(&mount)).cloned();
        own.or_else(|| {
            let groups = Cgroups::ours().ok()?;
            let ours = groups.memberships().find(|membership| membership.name() == Some(name))?;
            Some(ours.below(&mount))
        })
    }

    /// Whether cgroup version 2 rules here.
    pub(crate) fn is_unified(&self) -> bool {
        matches!(self.rule, Rule::Unified(_))
    }

    /// Refuses a cgroup that somebody runs in: two containers in one would be frozen and killed together.
    ///
    /// # Errors
    /// `EXISTS`.
    pub(crate) fn must_be_empty(&self) -> Result<()> {
        if self.processes()?.is_empty() {
            return Ok(());
        }
        Err(Fault::new(Code::Exists, format_args!("use cgroup {}", self.name()), "processes run in it")
            .advise("give the container another cgroups path or delete the other one"))
    }

    /// Makes the cgroup with what the spec allows, devices included, and moves `pid` into it.
    pub(crate) fn enter(&self, pid: i32, resources: Option<&LinuxResources>) -> Result<()> {
        self.prepare(resources)?;
        self.admit(pid)?;
        self.restrict(resources)
    }

    /// Makes the folders of version 1 and writes the limits. Version 2 has them made when the first process comes.
    pub(crate) fn prepare(&self, resources: Option<&LinuxResources>) -> Result<()> {
        let Rule::Legacy(hierarchies) = &self.rule else { return Ok(()) };
        for folder in &self.folders {
            fs::create_dir_all(folder).attempt(|| format!("make cgroup {}", folder.display()))?;
        }
        if let Some(mount) = hierarchies.of("cpuset") {
            let below = self.path.strip_prefix("/").unwrap_or(&self.path);
            for file in ["cpuset.cpus", "cpuset.mems"] {
                inherit(mount, below, file)?;
            }
        }
        let below = self.path.strip_prefix("/").unwrap_or(&self.path);
        for limit in limits::of(resources) {
            let mount = hierarchies.of(limit.controller).ok_or_else(|| {
                Fault::new(
                    Code::System,
                    format_args!("limit {} of cgroup {}", limit.file, self.name()),
                    format_args!("the controller {} is not mounted", limit.controller),
                )
                .advise("mount it at /sys/fs/cgroup, or leave the limit out")
            })?;
            write(&mount.join(below).join(&limit.file), &limit.value)?;
        }
        Ok(())
    }

    /// Moves the calling thread, the only one of its process, into the prepared cgroup of version 1; nothing on
    /// version 2, where the parent admits it.
    ///
    /// By `0` in `tasks`: a whole process, or another one, is moved under a lock of the whole machine that waits for an
    /// RCU grace period, milliseconds each time (`cgroup_procs_write_start` in the kernel).
    pub(crate) fn join(&self) -> Result<()> {
        match &self.rule {
            Rule::Legacy(_) => self.folders.iter().try_for_each(|folder| write(&folder.join("tasks"), "0")),
            Rule::Unified(_) => Ok(()),
        }
    }

    /// Moves `pid` into the prepared cgroup.
    pub(crate) fn admit(&self, pid: i32) -> Result<()> {
        let manager = match &self.rule {
            Rule::Legacy(_) => {
                return self.folders.iter().try_for_each(|folder| write(&folder.join(CGROUP_PROCS), pid));
            }
            Rule::Unified(manager) => manager,
        };
        let failed = |err: &dyn std::error::Error| {
            Fault::new(Code::System, format_args!("set up cgroup {}", self.name()), chain(err))
        };
        manager.add_task(Pid::from_raw(pid)).map_err(|err| failed(&err))
    }

    /// Holds the processes of a cgroup of version 2 to what the spec allows; those of version 1 are limited when it is
    /// prepared.
    pub(crate) fn restrict(&self, resources: Option<&LinuxResources>) -> Result<()> {
        let Rule::Unified(manager) = &self.rule else { return Ok(()) };
        if let Some(resources) = resources {
            let options =
                ControllerOpt { resources, disable_oom_killer: false, oom_score_adj: None, freezer_state: None };
            manager
                .apply(&options)
                .map_err(|err| Fault::new(Code::System, format_args!("set up cgroup {}", self.name()), chain(&err)))?;
        }
        self.restrict_devices(resources)
    }

    /// Holds the processes to the device rules of the spec, where libcgroups does not: on version 2.
    pub(crate) fn restrict_devices(&self, resources: Option<&LinuxResources>) -> Result<()> {
        let rules = resources.and_then(|resources| resources.devices().as_deref()).unwrap_or_default();
        match self.folders.first().filter(|_| self.is_unified()) {
            Some(folder) => device_filter::attach(folder, rules),
            None => Ok(()),
        }
    }

    /// Freezes all processes.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.set(FreezerState::Frozen, "freeze")
    }

    /// Lets them go on.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.set(FreezerState::Thawed, "thaw")
    }

    fn set(&self, state: FreezerState, verb: &str) -> Result<()> {
        let failed = |why: String| Fault::new(Code::System, format_args!("{verb} cgroup {}", self.name()), why);
        match (&self.rule, &self.freezer) {
            (Rule::Legacy(_), Some(freezer)) => freezer::set(freezer, state),
            (Rule::Legacy(_), None) => {
                Err(failed("the freezer controller is not mounted".into()).advise("mount it at /sys/fs/cgroup"))
            }
            (Rule::Unified(manager), _) => manager.freeze(state).map_err(|err| failed(chain(&err))),
        }
    }

    /// All processes in the cgroup and below it.
    pub(crate) fn processes(&self) -> Result<BTreeSet<i32>> {
        let mut found = BTreeSet::new();
        for folder in &self.folders {
            tree::collect(folder, DEPTH_MAX, &mut found)?;
        }
        Ok(found)
    }

    /// Sends a signal to all processes, none of which can fork away meanwhile.
    pub(crate) fn signal_all(&self, signal: i32) -> Result<()> {
        let frozen = self.freeze().is_ok();
        let sent = self.processes().map(|pids| {
            for pid in pids {
                // One that has just ended is what was wanted.
                let _ = kill::send(pid, signal);
            }
        });
        if frozen {
            self.thaw()?;
        }
        sent
    }

    /// Kills all processes and waits until they are gone.
    pub(crate) fn kill_all(&self) -> Result<()> {
        let gone = wait_until(EMPTY_TIMEOUT, || match self.processes() {
            Ok(pids) if pids.is_empty() => true,
            _ => self.signal_all(libc::SIGKILL).is_err() && !self.exists(),
        });
        if gone {
            return Ok(());
        }
        Err(Fault::new(Code::Deadline, format_args!("kill all in cgroup {}", self.name()), "some are still there"))
    }

    /// Removes a cgroup in which nothing runs and below which there is none; whether all of it is gone. The kernel
    /// refuses to remove any other.
    pub(crate) fn remove_empty(&self) -> bool {
        let left = self.folders.iter().filter(|folder| tree::remove(folder, 0).is_err());
        left.count() == 0
    }

    /// Removes the cgroup and those below it; one that does not exist is removed.
    pub(crate) fn remove(&self) -> Result<()> {
        for folder in &self.folders {
            let mut last = Ok(());
            wait_until(EMPTY_TIMEOUT, || {
                last = tree::remove(folder, DEPTH_MAX);
                last.is_ok()
            });
            last.attempt(|| format!("remove cgroup {}", folder.display()))?;
        }
        Ok(())
    }

    /// Removes what was made for a container that did not come to be; a cgroup in which somebody runs is not ours.
    pub(crate) fn forsake(&self) {
        if self.processes().is_ok_and(|pids| pids.is_empty()) {
            // Best effort: the failure that brought us here is the one to tell.
            let _ = self.remove();
        }
    }

    fn exists(&self) -> bool {
        self.folders.iter().any(|folder| folder.exists())
    }

    fn name(&self) -> String {
        self.freezer.as_ref().or(self.folders.first()).map_or_else(String::new, |path| path.display().to_string())
    }
}

/// Writes one value into a file of a cgroup.
fn write(file: &Path, value: impl ToString) -> Result<()> {
    let value = value.to_string();
    fs::OpenOptions::new()
        .write(true)
        .open(file)
        .and_then(|mut file| std::io::Write::write_all(&mut file, value.as_bytes()))
        .attempt(|| format!("write {value:?} to {}", file.display()))
}

/// Gives the group `below` and those above it the value of their parents where they have none: a cpuset without
/// processors takes no process.
fn inherit(mount: &Path, below: &Path, file: &str) -> Result<()> {
    let read = |folder: &Path| {
        let path = folder.join(file);
        fs::read_to_string(&path).attempt(|| format!("read {}", path.display()))
    };
    let own = read(&mount.join(below))?;
    if !own.trim().is_empty() {
        return Ok(());
    }
    let mut folder = mount.to_owned();
    let mut value = read(&folder)?;
    for part in below.components() {
        folder.push(part);
        let own = read(&folder)?;
        if own.trim().is_empty() {
            write(&folder.join(file), value.trim())?;
        } else {
            value = own;
        }
    }
    Ok(())
}
