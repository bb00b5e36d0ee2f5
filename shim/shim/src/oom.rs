//! The word that a container was out of memory. In version 1 of cgroups an eventfd counts how often; in version 2 a
//! counter in `memory.events`, which inotify watches.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_fault::{Attempt, Fault, Result};
use containerd_shim_protos::events::task::TaskOOM;
use containerd_shim_protos::topics;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

use crate::events::Events;
use crate::hierarchy::Hierarchy;

/// Largest file of a cgroup that is read, in bytes.
const FILE_MAX: u64 = 1 << 16;

/// From the word of a shortage to the kernel's count of whom it killed.
const COUNT_DELAY: Duration = Duration::from_millis(10);

/// What is known of a container's shortages.
pub struct Shortage {
    id: String,
    events: Events,
    hierarchy: Hierarchy,
    /// How many kills were told.
    told: AtomicU64,
}

impl Shortage {
    /// Watches a container from now on, until its cgroup is gone.
    pub fn watch(id: &str, hierarchy: &Hierarchy, events: &Events) -> Arc<Shortage> {
        let shortage = Arc::new(Shortage {
            id: id.to_string(),
            events: events.clone(),
            hierarchy: hierarchy.clone(),
            told: AtomicU64::new(0),
        });
        let outcome = match hierarchy {
            Hierarchy::V1(_) => match hierarchy.controller("memory") {
                Some(folder) => shortage.watch_v1(folder),
                None => Ok(()),
            },
            Hierarchy::V2(folder) => shortage.watch_v2(folder),
        };
        if let Err(fault) = outcome {
            // It runs all the same; what kills it is told at its end.
            log::info!("{fault}");
        }
        shortage
    }

    /// Says what was not said yet: once for however many processes the kernel has killed since. Called before the end
    /// of a process is said, too.
    pub fn look(&self) {
        let Some(kills) = kills(&self.hierarchy) else { return };
        if self.told.swap(kills, Ordering::Relaxed) < kills {
            self.say();
        }
    }

    fn say(&self) {
        let event = TaskOOM { container_id: self.id.clone(), ..TaskOOM::default() };
        self.events.say(topics::TASK_OOM_EVENT_TOPIC, event);
    }

    fn watch_v1(self: &Arc<Self>, folder: &Path) -> Result<()> {
        let what = || format!("watch the memory of {}", self.id);
        let fail = |errno: nix::Error| Fault::io(what(), &errno.into());
        let count = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map_err(fail)?;
        let control = std::fs::File::open(folder.join("memory.oom_control")).attempt(what)?;
        let order = format!("{} {}", count.as_fd().as_raw_fd(), control.as_raw_fd());
        std::fs::write(folder.join("cgroup.event_control"), order).attempt(what)?;
        let count = readable(OwnedFd::from(count)).attempt(what)?;
        let (shortage, folder) = (self.clone(), folder.to_path_buf());
        tokio::spawn(async move {
            // It is also woken when the cgroup goes.
            while drained(&count).await && folder.exists() {
                if kills_none(&folder) {
                    shortage.say();
                    continue;
                }
                // It is woken, many times over, before the kernel counts whom it kills.
                tokio::time::sleep(COUNT_DELAY).await;
                shortage.look();
            }
        });
        Ok(())
    }

    fn watch_v2(self: &Arc<Self>, folder: &Path) -> Result<()> {
        let what = || format!("watch the memory of {}", self.id);
        let fail = |errno: nix::Error| Fault::io(what(), &errno.into());
        let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).map_err(fail)?;
        watch.add_watch(&folder.join("memory.events"), AddWatchFlags::IN_MODIFY).map_err(fail)?;
        // By this one the watch learns that the container has ended.
        watch.add_watch(&folder.join("cgroup.events"), AddWatchFlags::IN_MODIFY).map_err(fail)?;
        let changes = readable(watch.as_fd().try_clone_to_owned().attempt(what)?).attempt(what)?;
        let (shortage, folder) = (self.clone(), folder.to_path_buf());
        tokio::spawn(async move {
            while drained(&changes).await {
                shortage.look();
                let events = std::fs::read_to_string(folder.join("cgroup.events")).unwrap_or_default();
                if !events.lines().any(|line| line == "populated 1") {
                    return;
                }
            }
        });
        Ok(())
    }
}

fn readable(fd: OwnedFd) -> std::io::Result<AsyncFd<std::fs::File>> {
    // SAFETY: the file is owned by what is made here, so that its descriptor stays the same as long as it is watched.
    unsafe { AsyncFd::register(std::fs::File::from(fd)) }.map_err(std::io::Error::from)
}

/// Waits until there is something to read, and reads it; false when there never will be.
async fn drained(from: &AsyncFd<std::fs::File>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        let Ok(mut ready) = from.readable().await else { return false };
        match ready.try_io(|from| from.get_ref().read(&mut buffer)) {
            Ok(read) => return read.is_ok_and(|bytes| bytes > 0),
            Err(_would_block) => {}
        }
    }
}

/// Whether whoever lacks memory waits for it: the container has asked for no kills.
fn kills_none(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("memory.oom_control"))
        .is_ok_and(|text| text.lines().any(|line| line == "oom_kill_disable 1"))
}

/// How many of the container's processes were killed for want of memory.
fn kills(hierarchy: &Hierarchy) -> Option<u64> {
    let file = match hierarchy {
        Hierarchy::V1(_) => hierarchy.controller("memory")?.join("memory.oom_control"),
        Hierarchy::V2(folder) => folder.join("memory.events"),
    };
    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(FILE_MAX).read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_counted_by_the_kernel() {
        let folder = tempfile::tempdir().expect("folder");
        let v2 = Hierarchy::V2(folder.path().to_path_buf());
        assert_eq!(kills(&v2), None);
        std::fs::write(folder.path().join("memory.events"), "low 0\noom 4\noom_kill 3\noom_group_kill 9\n")
            .expect("write");
        assert_eq!(kills(&v2), Some(3));
        let v1 = Hierarchy::V1([("memory".to_string(), folder.path().to_path_buf())].into());
        std::fs::write(folder.path().join("memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
            .expect("write");
        assert_eq!(kills(&v1), Some(2));
    }
}
