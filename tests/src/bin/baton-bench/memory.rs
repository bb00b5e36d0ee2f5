//! How much memory Baton's processes on a node have at the same moment, at the most.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_fault::{Attempt, Result};

/// Between two looks: the kernel has no event for this.
const PAUSE: Duration = Duration::from_millis(20);
/// Baton's programs.
const BATON: &[&str] = &["containerd-shim-baton-v2", "baton", "baton-gpu-agent", "baton-hook"];

/// The pids of all processes of a program that have that word on their command line.
///
/// # Errors
/// `FILE` when there is no /proc.
pub fn pids_of(program: &str, wanted: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").attempt(|| format!("look for {program}"))?.flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let named = words.first().is_some_and(|word| Path::new(word.as_ref()).ends_with(program));
        if named && words.iter().any(|word| word == wanted) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(found)
}

/// The most that was seen, in bytes of proportional set size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    /// Of all of Baton's processes together.
    pub baton: u64,
    /// Of all processes of CRIU together.
    pub criu: u64,
}

/// Runs `deed` and watches meanwhile what the programs in the node's own pid namespace have; a container's program
/// has one of its own and does not count.
pub fn during<T>(node_pid: i32, deed: impl FnOnce() -> T) -> (T, Peak) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(node_pid, &ended));
        let done = deed();
        ended.store(true, Ordering::Relaxed);
        (done, watcher.join().unwrap_or_default())
    })
}

fn watch(node_pid: i32, ended: &AtomicBool) -> Peak {
    let (mut peak, mut known) = (Peak::default(), HashMap::new());
    let home = namespace(&node_pid.to_string());
    while !ended.load(Ordering::Relaxed) {
        let now = look(home.as_ref(), &mut known);
        peak = Peak { baton: peak.baton.max(now.baton), criu: peak.criu.max(now.criu) };
        std::thread::sleep(PAUSE);
    }
    peak
}

fn look(home: Option<&PathBuf>, elsewhere: &mut HashMap<String, PathBuf>) -> Peak {
    let mut sum = Peak::default();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().into_string() else { continue };
        let Ok(program) = fs::read_link(entry.path().join("exe")) else { continue };
        // A pid namespace is for life, so one look at each program suffices.
        if elsewhere.get(&pid) == Some(&program) {
            continue;
        }
        if namespace(&pid).as_ref() != home {
            elsewhere.insert(pid, program);
            continue;
        }
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        if BATON.contains(&name.as_ref()) {
            sum.baton += proportional(&pid);
        } else if name == "criu" {
            sum.criu += proportional(&pid);
        }
    }
    sum
}

fn namespace(pid: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// The proportional set size of a process, in bytes; 0 of one that has gone.
pub fn proportional(pid: &str) -> u64 {
    fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok().and_then(|text| parse(&text)).unwrap_or_default()
}

/// `Pss:   1234 kB`
fn parse(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proportional_size_is_read() {
        let text = "55d0-7ffc ---p 00000000 00:00 0   [rollup]\nRss:   9 kB\nPss:      1234 kB\nPss_Dirty:  1 kB\n";
        assert_eq!(parse(text), Some(1234 << 10));
        assert_eq!(parse(""), None);
    }
}
