//! The lease on a card: while a save, a pause or a restore moves memory off a card and back, nobody else of Baton
//! starts on it. A lease is a file lock, so the kernel releases it with the shim that holds it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_devices::GpuUuid;
use baton_fault::{Attempt, Code, Fault, Result};
use nix::fcntl::{Flock, FlockArg};

/// How often a lease that is held elsewhere is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// The cards of one save, pause or restore. Released when dropped.
#[derive(Debug)]
pub struct Lease {
    _locks: Vec<Flock<File>>,
}

/// The folder of the leases below Baton's run folder.
pub fn folder(run: &Path) -> PathBuf {
    run.join("leases")
}

impl Lease {
    /// Takes all of `cards`, waiting at most `patience` for those that are held elsewhere. Always in the order of
    /// their UUIDs, so that two who want the same cards do not wait for each other.
    ///
    /// # Errors
    /// `LEASE_BUSY`, naming the card, or `SYSTEM`.
    pub async fn take(run: &Path, cards: &[GpuUuid], patience: Duration) -> Result<Lease> {
        let folder = folder(run);
        std::fs::create_dir_all(&folder).attempt(|| format!("make {}", folder.display()))?;
        let mut names: Vec<String> = cards.iter().map(ToString::to_string).collect();
        names.sort();
        names.dedup();
        let deadline = Instant::now() + patience;
        let mut locks = Vec::with_capacity(names.len());
        for name in names {
            locks.push(take_one(&folder.join(&name), &name, deadline).await?);
        }
        Ok(Lease { _locks: locks })
    }

    /// Waits until none of `cards` is held elsewhere, and holds none of them afterwards.
    ///
    /// # Errors
    /// As [`Lease::take`].
    pub async fn wait_until_free(run: &Path, cards: &[GpuUuid], patience: Duration) -> Result<()> {
        Lease::take(run, cards, patience).await.map(drop)
    }
}

async fn take_one(path: &Path, card: &str, deadline: Instant) -> Result<Flock<File>> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .attempt(|| format!("open the lease {}", path.display()))?;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) if Instant::now() >= deadline => {
                return Err(Fault::new(
                    Code::LeaseBusy,
                    format!("take the lease on {card}"),
                    "another save, pause or restore holds the card",
                )
                .advise("try again when it has ended"));
            }
            Err((same, nix::errno::Errno::EWOULDBLOCK)) => {
                file = same;
                tokio::time::sleep(RETRY).await;
            }
            Err((_, err)) => return Err(Fault::new(Code::System, format!("lock {}", path.display()), err)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = "GPU-11111111-2222-3333-4444-555555555555";

    #[tokio::test(flavor = "current_thread")]
    async fn a_card_has_one_holder_and_is_free_after_it() {
        let run = tempfile::tempdir().expect("folder");
        let card: GpuUuid = CARD.parse().expect("uuid");
        let first = Lease::take(run.path(), &[card, card], Duration::ZERO).await.expect("free");
        let second = Lease::take(run.path(), &[card], Duration::ZERO).await.expect_err("held");
        assert_eq!(second.code, Code::LeaseBusy);
        assert!(second.to_string().contains(CARD));
        drop(first);
        Lease::wait_until_free(run.path(), &[card], Duration::ZERO).await.expect("free again");
    }
}
