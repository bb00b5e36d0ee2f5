//! A cell: one set of namespaces with a first process. Nodes are cells, and so is the hub between them.

use std::fs;
use std::path::{Path, PathBuf};

use baton_fault::{Attempt, Code, Fault, Result};
use serde::{Deserialize, Serialize};

use crate::house;

/// What runs in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// containerd, and simulated cards where asked for.
    Node,
    /// The bridge and the registry.
    Hub,
}

/// What is written down about a cell before anything of it is made, so that whatever becomes of the start,
/// `stop` knows what to look for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Name, and host name.
    pub name: String,
    /// What runs in it.
    pub role: Role,
    /// Number of its address and its network interface; the hub has 1.
    pub number: u16,
    /// The shared root file system under it.
    pub root: PathBuf,
    /// Where Baton's programs and the simulated driver were built.
    pub bin: PathBuf,
    /// Simulated cards, as `baton-sim-card` reads them.
    pub cards: Option<String>,
    /// Folder of another containerd.
    pub containerd: Option<PathBuf>,
    /// Folders with clients that are installed too.
    #[serde(default)]
    pub clients: Vec<PathBuf>,
    /// Folder of the network plugins of its pods.
    #[serde(default)]
    pub network_plugins: Option<PathBuf>,
    /// Size of the file system at /var/lib, in bytes; none: the machine's disk.
    pub disk: Option<u64>,
    /// The node sees cgroup v2 alone.
    pub cgroup2: bool,
    /// The archive of the image that every node has.
    pub image: Option<PathBuf>,
    /// Its cgroups on the machine, one per hierarchy.
    pub cgroups: Vec<PathBuf>,
}

/// The first process of a cell, told from a later one with the same pid by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// Its pid on the machine.
    pub pid: i32,
    start: u64,
}

impl Cell {
    /// Folder with the state of a cell.
    pub fn run_dir(name: &str) -> PathBuf {
        Path::new(house::RUN).join(name)
    }

    /// Folder with what a cell writes to disk.
    pub fn disk_dir(name: &str) -> PathBuf {
        Path::new(house::DISK).join(name)
    }

    /// Its address on the bridge.
    pub fn address(&self) -> String {
        format!("10.213.{}.{}", self.number >> 8, self.number & 0xff)
    }

    /// The addresses of its pods. Only nodes of one cluster reach those of each other, so it does no harm that they come
    /// round again.
    pub fn pod_subnet(&self) -> String {
        format!("10.{}.{}.0/24", 214 + (self.number >> 8) % 40, self.number & 0xff)
    }

    /// Writes the cell down.
    pub fn store(&self) -> Result<()> {
        let dir = Cell::run_dir(&self.name);
        fs::create_dir_all(&dir).attempt(|| format!("make {}", dir.display()))?;
        let text = serde_json::to_vec_pretty(self)
            .map_err(|err| Fault::new(Code::System, format!("write down node {}", self.name), err))?;
        let path = dir.join("cell.json");
        write_whole(&path, &text)
    }

    /// Reads what is written down about a cell.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such cell, `FILE` when its record is damaged.
    pub fn load(name: &str) -> Result<Cell> {
        let path = Cell::run_dir(name).join("cell.json");
        let text = fs::read(&path).map_err(|_| {
            Fault::new(Code::NotFound, format!("find node {name}"), "there is none of that name")
                .advise("see integration/node list")
        })?;
        serde_json::from_slice(&text).map_err(|err| {
            Fault::new(Code::File, format!("read {}", path.display()), err)
                .advise(format!("integration/node stop {name}"))
        })
    }

    /// Its first process, if that runs.
    pub fn first(name: &str) -> Option<First> {
        let text = fs::read_to_string(Cell::run_dir(name).join("pid")).ok()?;
        let (pid, start) = text.trim().split_once(' ')?;
        let first = First { pid: pid.parse().ok()?, start: start.parse().ok()? };
        first.runs().then_some(first)
    }

    /// Its first process, or a fault that says that the node does not run.
    pub fn running(name: &str) -> Result<First> {
        Cell::load(name)?;
        Cell::first(name).ok_or_else(|| {
            // What is on record and what the kernel says, so that a node that ended can be told from a lost record.
            let record = fs::read_to_string(Cell::run_dir(name).join("pid")).unwrap_or_else(|err| err.to_string());
            let pid = record.split_whitespace().next().unwrap_or_default();
            let kernel = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_else(|err| err.to_string());
            let why = format!("it does not run (record: {}; kernel: {})", record.trim(), kernel.trim());
            Fault::new(Code::State, format!("enter node {name}"), why)
                .advise(format!("integration/node stop {name}, then start it again"))
        })
    }
}

impl First {
    /// The process of that pid, as it runs now.
    pub fn of(pid: i32) -> Option<First> {
        Some(First { pid, start: start_time(pid)? })
    }

    /// Whether this very process still runs.
    pub fn runs(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }

    /// Writes it down.
    pub fn store(&self, name: &str) -> Result<()> {
        let path = Cell::run_dir(name).join("pid");
        write_whole(&path, format!("{} {}\n", self.pid, self.start).as_bytes())
    }
}

/// Writes a file whole or not at all: whoever reads it, or is left with it after a kill, finds no half of it.
fn write_whole(path: &Path, text: &[u8]) -> Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, path)).attempt(|| format!("write {}", path.display()))
}

/// When a process started, in clock ticks after boot; none for one that is gone or a zombie.
fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_start_time(&stat)
}

/// proc(5): the state is field 3 and the start time field 22; field 2, the name, may hold anything.
fn parse_start_time(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_is_found_behind_any_name() {
        let tail = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(parse_start_time(&format!("7 (a) Z b) S {tail}")), Some(4711));
        assert_eq!(parse_start_time(&format!("7 (a) Z {tail}")), None);
        assert_eq!(parse_start_time("7 (a"), None);
    }
}
