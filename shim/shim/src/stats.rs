//! Stats: what a container uses, read from its cgroup, in the messages of containerd's cgroup library and as complete as
//! runc's shim fills them. What a kernel does not count is left out.

mod v1;
mod v2;

use std::collections::HashMap;
use std::path::Path;

use baton_fault::{Code, Fault, Result};
use containerd_shim::util::convert_to_any;
use containerd_shim_protos::protobuf::MessageDyn;
use containerd_shim_protos::protobuf::well_known_types::any::Any;

use crate::hierarchy::Hierarchy;

/// Largest file of a cgroup that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;
/// The sizes of huge pages that there are.
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";

/// What the container in that cgroup uses.
///
/// # Errors
/// `SYSTEM` when it cannot be told.
pub fn stats(hierarchy: &Hierarchy) -> Result<Any> {
    let metrics: Box<dyn MessageDyn> = match hierarchy {
        Hierarchy::V1(_) => Box::new(v1::metrics(hierarchy)),
        Hierarchy::V2(folder) => Box::new(v2::metrics(folder)),
    };
    convert_to_any(metrics).map_err(|err| Fault::new(Code::System, "tell what a container uses", err))
}

/// A folder of a cgroup.
#[derive(Clone, Copy)]
struct Folder<'a>(&'a Path);

impl Folder<'_> {
    fn text(self, name: &str) -> Option<String> {
        use std::io::Read;
        let mut text = String::new();
        std::fs::File::open(self.0.join(name)).ok()?.take(FILE_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// The one number in a file; `max` is the largest there is.
    fn number(self, name: &str) -> Option<u64> {
        number(self.text(name)?.trim())
    }

    /// The numbers in lines of `NAME NUMBER`.
    fn pairs(self, name: &str) -> Option<Pairs> {
        let text = self.text(name)?;
        let pair = |line: &str| {
            let (name, value) = line.split_once(char::is_whitespace)?;
            Some((name.to_string(), number(value.trim())?))
        };
        Some(Pairs(text.lines().filter_map(pair).collect()))
    }
}

struct Pairs(HashMap<String, u64>);

impl Pairs {
    /// The number of that name, 0 where there is none.
    fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }
}

fn number(text: &str) -> Option<u64> {
    if text == "max" { Some(u64::MAX) } else { text.parse().ok() }
}

/// Lines of `DEVICE hca_handle=N hca_object=N`: device, handles, objects.
fn rdma_entries(text: &str) -> Vec<(String, u32, u32)> {
    let value = |word: &str, name: &str| {
        let value = word.strip_prefix(name)?.strip_prefix('=')?;
        if value == "max" { Some(u32::MAX) } else { value.parse().ok() }
    };
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [device, handles, objects] = words.as_slice() else { return None };
            let handles = value(handles, "hca_handle").unwrap_or_default();
            Some(((*device).to_string(), handles, value(objects, "hca_object").unwrap_or_default()))
        })
        .collect()
}

/// The sizes of huge pages as cgroups name them (`2MB`).
fn huge_page_sizes() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(HUGE_PAGES) else { return Vec::new() };
    let mut sizes: Vec<u64> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok())
        .collect();
    sizes.sort_unstable();
    sizes.into_iter().map(size_name).collect()
}

fn size_name(kib: u64) -> String {
    match kib {
        kib if kib >= 1 << 20 => format!("{}GB", kib >> 20),
        kib if kib >= 1 << 10 => format!("{}MB", kib >> 10),
        kib => format!("{kib}KB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_pairs_and_devices_are_read_as_the_kernel_writes_them() {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("pids.max"), "max\n").expect("write");
        std::fs::write(folder.path().join("memory.stat"), "anon 7\nfile 8\nodd\n").expect("write");
        let files = Folder(folder.path());
        assert_eq!(files.number("pids.max"), Some(u64::MAX));
        assert_eq!(files.number("pids.current"), None);
        let pairs = files.pairs("memory.stat").expect("pairs");
        assert_eq!((pairs.get("anon"), pairs.get("file"), pairs.get("odd")), (7, 8, 0));
        assert_eq!(rdma_entries("mlx4_0 hca_handle=2 hca_object=max\nbad\n"), [("mlx4_0".to_string(), 2, u32::MAX)]);
        assert_eq!([64, 2048, 1 << 20].map(size_name), ["64KB", "2MB", "1GB"]);
    }
}
