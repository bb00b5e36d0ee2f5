//! Room for GPU memory in a restored container: until it is back on a card it is ordinary memory of the processes, and
//! a container whose limit was made for what it has in host memory would be killed for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_checkpoint::cgroup::{Cgroup, MemoryLimit};
use baton_devices::Config;
use baton_fault::Result;
use serde_json::Value;

/// Room beyond what was counted, in bytes: CRIU works in the container's cgroup too.
const MARGIN: u64 = 128 << 20;
/// Longest wait for the kernel to put the limit back.
const PATIENCE: Duration = Duration::from_secs(30);

/// A memory limit that was raised in a bundle's config.json.
pub struct Headroom {
    bundle: PathBuf,
    config: Config,
    limit: u64,
}

impl Headroom {
    /// Raises the limit in the config of `bundle` by `bytes`; none when there is no limit, or nothing to make room for.
    ///
    /// # Errors
    /// Of reading and writing the config.
    pub fn raise(bundle: &Path, bytes: u64) -> Result<Option<Headroom>> {
        if bytes == 0 {
            return Ok(None);
        }
        let config = Config::read(bundle)?;
        let Some(limit) = field(&config.value, "limit") else { return Ok(None) };
        let mut raised = config.clone();
        for name in ["limit", "swap"] {
            if let Some(value) = field(&config.value, name)
                && let Some(slot) = raised.value.pointer_mut(&pointer(name))
            {
                *slot = Value::from(value.saturating_add(bytes).saturating_add(MARGIN).min(i64::MAX.cast_unsigned()));
            }
        }
        raised.write(bundle)?;
        Ok(Some(Headroom { bundle: bundle.to_path_buf(), config, limit }))
    }

    /// Puts the limit back, for the container of process `init` and in the config. Memory that was moved has been
    /// freed by now, but the kernel may need a moment.
    ///
    /// # Errors
    /// `SYSTEM` when the container uses more than its limit all the same.
    pub async fn lower(self, init: u32) -> Result<()> {
        self.config.write(&self.bundle)?;
        let Some(limit) = Cgroup::of(init)?.memory_limit()? else { return Ok(()) };
        MemoryLimit { bytes: self.limit, ..limit }.lower(PATIENCE).await
    }
}

fn pointer(name: &str) -> String {
    format!("/linux/resources/memory/{name}")
}

/// A limit that limits: OCI has -1 and 0 for none.
fn field(config: &Value, name: &str) -> Option<u64> {
    config.pointer(&pointer(name))?.as_u64().filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("config.json"), text).expect("config");
        folder
    }

    #[test]
    fn the_limit_is_raised_by_what_was_on_the_cards_and_nothing_else_changes() {
        let folder = bundle(r#"{"a":1,"linux":{"resources":{"memory":{"limit":1000,"swap":2000}}}}"#);
        let headroom = Headroom::raise(folder.path(), 5000).expect("raise").expect("there is a limit");
        assert_eq!(headroom.limit, 1000);
        let text = std::fs::read_to_string(folder.path().join("config.json")).expect("read");
        let (limit, swap) = (6000 + MARGIN, 7000 + MARGIN);
        assert_eq!(
            text,
            format!(r#"{{"a":1,"linux":{{"resources":{{"memory":{{"limit":{limit},"swap":{swap}}}}}}}}}"#)
        );
    }

    #[test]
    fn a_container_without_a_limit_or_without_gpu_memory_is_left_alone() {
        for (text, bytes) in [
            (r#"{"linux":{}}"#, 5000),
            (r#"{"linux":{"resources":{"memory":{"limit":-1}}}}"#, 5000),
            (r#"{"linux":{"resources":{"memory":{"limit":1000}}}}"#, 0),
        ] {
            let folder = bundle(text);
            assert!(Headroom::raise(folder.path(), bytes).expect("raise").is_none(), "{text}");
            assert_eq!(std::fs::read_to_string(folder.path().join("config.json")).expect("read"), text);
        }
    }
}
