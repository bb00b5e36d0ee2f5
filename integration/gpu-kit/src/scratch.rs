//! The folders of a run, on this machine alone at a time; what an earlier run could not clear away is cleared first.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use crate::{bed, undo};

/// How the folders of all runs begin.
const PREFIX: &str = "scratch-";
/// Variables that would have checks ask for other cards, another daemon or other libraries than they mean.
const MISLEADING: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MPS_LOG_DIRECTORY",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "LD_PRELOAD",
];

/// What belongs to one run; removed by [`Scratch::clear`].
#[derive(Debug)]
pub struct Scratch {
    /// On the disk where the reports go, for what is large.
    folder: PathBuf,
    id: String,
    _alone: UnixListener,
}

impl Scratch {
    /// Makes the folders below `out` and tells them to the checks by their environment.
    ///
    /// # Errors
    /// Another run at work, or a folder that cannot be made.
    pub fn make(out: &Path) -> Result<Scratch, String> {
        // It goes away with the process, however that ends.
        let alone = SocketAddr::from_abstract_name("baton-gpu-kit").and_then(|name| UnixListener::bind_addr(&name));
        let alone = alone.map_err(|err| format!("another run of the kit is at work on this machine ({err})"))?;
        clear_earlier(out)?;
        let id = unique()?;
        let folder = out.join(format!("{PREFIX}{id}"));
        fs::create_dir_all(&folder).map_err(|err| format!("make {}: {err}", folder.display()))?;
        let short = short_places(&id).into_iter().find(|place| fs::create_dir(place).is_ok());
        let short = short.ok_or_else(|| "none of /tmp, /run and /dev/shm can be written".to_owned())?;
        // SAFETY: this process has one thread.
        unsafe {
            MISLEADING.iter().for_each(|name| std::env::remove_var(name));
            // No daemon is there, so that a daemon of the machine's makes no check its client.
            std::env::set_var("CUDA_MPS_PIPE_DIRECTORY", short.join("no-daemon"));
            std::env::set_var("TMPDIR", &short);
            std::env::set_var("BATON_KIT_ID", &id);
            std::env::set_var("BATON_KIT_SCRATCH", &folder);
        }
        Ok(Scratch { folder, id, _alone: alone })
    }

    /// Ends what the run has left and removes its files; what could not be.
    pub fn clear(self) -> Vec<String> {
        clear(&self.id, &self.folder)
    }
}

/// Where a run may have its folder for sockets, whose paths have to be short: in the first of these that can be written.
fn short_places(id: &str) -> [PathBuf; 3] {
    ["/tmp", "/run", "/dev/shm"].map(|place| Path::new(place).join(format!("baton-gpu-kit-{id}")))
}

/// Cards that are not as they were keep the folder, so that the next run tries again.
fn clear(id: &str, folder: &Path) -> Vec<String> {
    let mut left: Vec<String> = bed::clear(id).err().into_iter().collect();
    let undone = undo::after_run(folder);
    let remove = |folder: &Path| fs::remove_dir_all(folder).map_err(|err| format!("{}: {err}", folder.display()));
    left.extend(short_places(id).iter().filter(|short| short.exists()).filter_map(|short| remove(short).err()));
    left.extend(undone.and_then(|()| remove(folder)).err());
    left
}

/// Nobody else is at work, so every folder there is has been left.
fn clear_earlier(out: &Path) -> Result<(), String> {
    for entry in fs::read_dir(out).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let left = clear(id, &entry.path());
        if !left.is_empty() {
            return Err(format!("an earlier run has left something that cannot be cleared: {}", left.join("; ")));
        }
    }
    Ok(())
}

/// Names this run among all on the machine, those in other pid namespaces too: cgroups and folders are called after it.
fn unique() -> Result<String, String> {
    const FILE: &str = "/proc/sys/kernel/random/uuid";
    let uuid = fs::read_to_string(FILE).map_err(|err| format!("read {FILE}: {err}"))?;
    Ok(uuid.chars().take_while(|digit| digit.is_ascii_hexdigit()).collect())
}
