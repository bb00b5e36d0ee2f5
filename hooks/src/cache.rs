//! The image's `/etc/ld.so.cache`: brought up to date with the host's `ldconfig`.
//!
//! The host's program runs, loaded by the host's loader, and changes its root to the container's itself
//! (`ldconfig -r`): nothing of the image is executed. Before, in a mount namespace of its own, `/proc`, `/sys`
//! and `/dev` are taken away from the container's root, so that no link of the image can make it write there.
//!
//! Without the cache a program still finds libraries in the default directories of its own loader. So a
//! failure only counts where the image's loader does not look where the libraries lie.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use baton_fault::{Attempt, Code, Fault, Result};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};

use baton_rooted::Rooted;

/// Longest run of `ldconfig`: a large image takes a second.
const DEADLINE: Duration = Duration::from_secs(30);
/// How much of its complaints is kept, in bytes.
const SAID_MAX: usize = 16 << 10;

/// Updates the cache of the image, where it has one.
///
/// # Errors
/// `DRIVER_MISSING` when the cache could not be made and programs would not find the libraries without it.
pub fn update(rootfs: &Rooted, ldconfig: &Path, dirs: &[PathBuf]) -> Result<()> {
    if !uses_a_cache(rootfs) {
        return Ok(());
    }
    match run(rootfs, ldconfig, dirs) {
        Ok(()) => Ok(()),
        Err(fault) if dirs.iter().all(|dir| is_searched(rootfs, dir)) => {
            // Standard error is the runtime's log.
            eprintln!("note: the library cache of the image stays as it is: {fault}");
            Ok(())
        }
        Err(fault) => Err(fault),
    }
}

/// Whether the image's loader reads a cache: glibc's does, musl's does not, a static program has none.
fn uses_a_cache(rootfs: &Rooted) -> bool {
    ["etc/ld.so.cache", "etc/ld.so.conf"].iter().any(|file| rootfs.has(Path::new(file)))
}

/// Whether the image's own loader looks into `dir` without a cache: its own C library lies there, or in the
/// directory of the same name without `/usr`.
fn is_searched(rootfs: &Rooted, dir: &Path) -> bool {
    let inside = dir.strip_prefix("/").unwrap_or(dir);
    let short = inside.strip_prefix("usr").unwrap_or(inside);
    [inside, short].iter().any(|dir| rootfs.has(&dir.join("libc.so.6")))
}

fn run(rootfs: &Rooted, ldconfig: &Path, dirs: &[PathBuf]) -> Result<()> {
    let running = || format!("update the library cache of {}", rootfs.path().display());
    let failed = |why: String| {
        Fault::new(Code::DriverMissing, running(), why)
            .advise("look at ldconfig on this host and at /etc/ld.so.conf of the image")
    };
    // By descriptor: what was opened is what runs, whatever its path names by then.
    let program = File::open(ldconfig).attempt(|| format!("open {}", ldconfig.display()))?;
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command
        .arg0("ldconfig")
        .args(["-X", "-C", "/etc/ld.so.cache", "-f", "/etc/ld.so.conf"])
        .arg("-r")
        .arg(rootfs.path())
        .args(dirs);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Built here: after fork only system calls are made.
    let hidden: Vec<PathBuf> = ["proc", "sys", "dev"].iter().map(|name| rootfs.path().join(name)).collect();
    // SAFETY: between fork and exec only async-signal-safe system calls run (unshare, mount, umount2);
    // nix copies a path of ordinary length to the stack, and the process has one thread.
    unsafe {
        command.pre_exec(move || hide(&hidden));
    }
    let mut child = command.spawn().attempt(running)?;
    let said = child.stderr.take().map(|stderr| listen(stderr, Instant::now() + DEADLINE));
    let said = match said.transpose() {
        Ok(said) => said.unwrap_or_default(),
        Err(err) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(format!("{}: {err}", ldconfig.display())));
        }
    };
    let status = child.wait().attempt(running)?;
    if status.success() {
        return Ok(());
    }
    let last = said.lines().last().unwrap_or_default();
    Err(failed(format!("{} ended with {status}: {last}", ldconfig.display())))
}

/// What a program writes to standard error until it ends; the first [`SAID_MAX`] bytes of it.
fn listen(mut stderr: ChildStderr, until: Instant) -> io::Result<String> {
    let mut said = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now()).as_millis().min(u16::MAX.into()) as u16;
        let mut polled = [PollFd::new(stderr.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::from(left)) {
            Ok(0) if Instant::now() < until => continue,
            Ok(0) => return Err(io::Error::other(format!("did not end in {} s", DEADLINE.as_secs()))),
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
            Ok(_) => {}
        }
        let mut part = [0; 4096];
        let count = stderr.read(&mut part)?;
        if count == 0 {
            return Ok(String::from_utf8_lossy(&said).into_owned());
        }
        let room = SAID_MAX.saturating_sub(said.len());
        said.extend_from_slice(&part[..count.min(room)]);
    }
}

/// A mount namespace of its own, in which the kernel's file systems are gone from the container's root. It is
/// entered by paths only: a descriptor opened before still shows the mounts of the old one.
fn hide(names: &[PathBuf]) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    for name in names {
        // Until nothing is mounted there: mounts may lie on top of each other.
        loop {
            match umount2(name, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
                Ok(()) => {}
                // Not there, or not a mount: then it is a mere directory of the image.
                Err(Errno::EINVAL | Errno::ENOENT | Errno::ENOTDIR) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with one library under the name that its soname gives, as after `links::make`.
    fn image(dir: &str) -> tempfile::TempDir {
        let tree = tempfile::tempdir().expect("tree");
        let libs = tree.path().join(dir.trim_start_matches('/'));
        std::fs::create_dir_all(&libs).expect("libs");
        std::fs::create_dir_all(tree.path().join("etc")).expect("etc");
        std::fs::write(tree.path().join("etc/ld.so.conf"), "").expect("conf");
        let library = std::fs::canonicalize("/lib/x86_64-linux-gnu/libutil.so.1").expect("a library of the machine");
        std::fs::copy(library, libs.join("libutil.so.1")).expect("copy");
        tree
    }

    #[test]
    fn the_cache_names_a_library_in_an_unusual_place() {
        let tree = image("/opt/driver");
        let root = Rooted::open(tree.path()).expect("root");
        update(&root, Path::new("/sbin/ldconfig"), &["/opt/driver".into()]).expect("updated");
        let cache = std::fs::read(tree.path().join("etc/ld.so.cache")).expect("cache");
        let wanted = b"/opt/driver/libutil.so.1";
        assert!(cache.windows(wanted.len()).any(|part| part == wanted), "the cache does not name the library");
    }

    #[test]
    fn a_link_of_the_image_cannot_lead_the_cache_out() {
        let outside = tempfile::tempdir().expect("outside");
        let tree = image("/opt/driver");
        std::os::unix::fs::symlink(outside.path().join("cache"), tree.path().join("etc/ld.so.cache")).expect("link");
        let root = Rooted::open(tree.path()).expect("root");
        // Dangling inside the root: then there is only the configuration, and the new cache replaces the link.
        let _ = update(&root, Path::new("/sbin/ldconfig"), &["/opt/driver".into()]);
        assert_eq!(std::fs::read_dir(outside.path()).expect("outside").count(), 0);
    }

    #[test]
    fn an_image_without_a_cache_is_left_alone() {
        let tree = tempfile::tempdir().expect("tree");
        let root = Rooted::open(tree.path()).expect("root");
        update(&root, Path::new("/no/ldconfig"), &["/usr/lib".into()]).expect("nothing to do");
        assert_eq!(std::fs::read_dir(tree.path()).expect("tree").count(), 0);
    }

    #[test]
    fn a_failure_counts_only_where_the_cache_is_needed() {
        let tree = image("/usr/lib64");
        let root = Rooted::open(tree.path()).expect("root");
        let dirs = ["/usr/lib64".into()];
        assert_eq!(update(&root, Path::new("/no/ldconfig"), &dirs).expect_err("needed").code, Code::File);
        assert_eq!(update(&root, Path::new("/bin/false"), &dirs).expect_err("needed").code, Code::DriverMissing);
        std::fs::create_dir(tree.path().join("lib64")).expect("lib64");
        std::fs::write(tree.path().join("lib64/libc.so.6"), "").expect("libc");
        update(&root, Path::new("/bin/false"), &dirs).expect("the loader finds them itself");
    }

    #[test]
    fn a_link_of_the_image_cannot_lead_the_cache_into_proc() {
        // A thread of its own, because a mount namespace of its own.
        std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).expect("root may make a mount namespace");
            mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
                .expect("private");
            let tree = tempfile::tempdir().expect("tree");
            let proc = tree.path().join("proc");
            std::fs::create_dir(&proc).expect("proc");
            std::os::unix::fs::symlink("/proc", tree.path().join("etc")).expect("link");
            mount(None::<&str>, &proc, Some("tmpfs"), MsFlags::empty(), None::<&str>)
                .expect("in place of the kernel's");
            std::fs::write(proc.join("ld.so.conf"), "").expect("conf");
            let root = Rooted::open(tree.path()).expect("root");
            let _ = update(&root, Path::new("/sbin/ldconfig"), &["/opt".into()]);
            let left: Vec<_> =
                std::fs::read_dir(&proc).expect("proc").flatten().map(|entry| entry.file_name()).collect();
            umount2(&proc, MntFlags::MNT_DETACH).expect("clean up");
            assert_eq!(left, ["ld.so.conf"], "ldconfig wrote through the link");
        })
        .join()
        .expect("thread");
    }
}
