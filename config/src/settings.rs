//! `/etc/baton/config.toml`. Every key has a default, so the file may be absent; an unknown key is refused,
//! so that a misspelt one does not silently do nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_fault::{Attempt, Code, Fault, Result};
use serde::Deserialize;

/// Largest settings file that is read, in bytes.
const SETTINGS_MAX: u64 = 1 << 20;

/// The settings of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Settings {
    /// Where the NVIDIA driver is.
    pub driver: Driver,
    /// Where Baton keeps things.
    pub paths: Paths,
    /// How a container is saved.
    pub save: Save,
    /// How a container is restored.
    pub restore: Restore,
}

/// Where the NVIDIA driver's files are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Driver {
    /// Root under which `dev`, `proc/driver/nvidia`, `usr/lib…` of the driver lie: `/`, or
    /// `/run/nvidia/driver` where a container brings the driver.
    pub root: PathBuf,
}

impl Default for Driver {
    fn default() -> Self {
        Driver { root: PathBuf::from("/") }
    }
}

/// Where Baton keeps things.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Paths {
    /// Run state.
    pub run: PathBuf,
    /// Checkpoints on their way into an image or out of one. On a disk, not a tmpfs: it takes the memory of
    /// the processes that are saved.
    pub staging: PathBuf,
    /// containerd's gRPC socket, where the shim is not told.
    pub containerd: PathBuf,
}

impl Default for Paths {
    fn default() -> Self {
        Paths {
            run: PathBuf::from(crate::names::RUN_DIR),
            staging: PathBuf::from("/var/lib/baton/staging"),
            containerd: PathBuf::from("/run/containerd/containerd.sock"),
        }
    }
}

/// How a container is saved.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Save {
    /// Longest wait for all CUDA processes to reach a safe point, in seconds.
    pub lock_timeout_s: u32,
    /// Deadline of one checkpoint or restore of GPU memory: this many seconds, and one more for each GiB.
    pub gpu_timeout_s: u32,
    /// zstd level of what goes into an image, 1 to 19.
    pub compression_level: i32,
}

impl Default for Save {
    fn default() -> Self {
        Save { lock_timeout_s: 20, gpu_timeout_s: 60, compression_level: 1 }
    }
}

/// How a container is restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Restore {
    /// Whether an engine that is not Baton's may restore checkpoint images. It gives the processes the credentials, the
    /// filter of system calls and the device nodes that the image says: only for nodes where every image is trusted.
    pub any_engine: bool,
}

impl Save {
    /// Deadline for moving `bytes` of GPU memory.
    pub fn gpu_deadline(&self, bytes: u64) -> Duration {
        Duration::from_secs(u64::from(self.gpu_timeout_s) + (bytes >> 30))
    }
}

impl Settings {
    /// The settings of this node: from `BATON_CONFIG` where it is set, else from `/etc/baton/config.toml`; the
    /// defaults where that file does not exist.
    ///
    /// # Errors
    /// `FILE` when the named file is unreadable, `SETTINGS` when it does not parse or a value is out of range.
    pub fn load() -> Result<Settings> {
        match std::env::var_os("BATON_CONFIG") {
            Some(path) => Settings::from_file(Path::new(&path)),
            None if Path::new(crate::names::SETTINGS_FILE).exists() => {
                Settings::from_file(Path::new(crate::names::SETTINGS_FILE))
            }
            None => Ok(Settings::default()),
        }
    }

    fn from_file(path: &Path) -> Result<Settings> {
        let size = std::fs::metadata(path).attempt(|| format!("read settings {}", path.display()))?.len();
        if size > SETTINGS_MAX {
            return Err(Fault::new(
                Code::Settings,
                format!("read settings {}", path.display()),
                format!("{size} bytes, more than {SETTINGS_MAX}"),
            )
            .advise("put back a settings file of the documented form"));
        }
        let text = std::fs::read_to_string(path).attempt(|| format!("read settings {}", path.display()))?;
        Settings::parse(&text).map_err(|fault| fault.during(path.display()))
    }

    /// Parses the text of a settings file.
    ///
    /// # Errors
    /// `SETTINGS`, naming the line or the value.
    pub fn parse(text: &str) -> Result<Settings> {
        let settings: Settings = toml::from_str(text).map_err(|err| {
            Fault::new(Code::Settings, "parse settings", err.to_string().replace('\n', " "))
                .advise("correct the file; config/files/config.toml shows every key")
        })?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<()> {
        let out_of_range = |key: &str, why: String| {
            Err(Fault::new(Code::Settings, format!("setting {key}"), why).advise("correct the settings file"))
        };
        for (key, path) in [
            ("driver.root", &self.driver.root),
            ("paths.run", &self.paths.run),
            ("paths.staging", &self.paths.staging),
            ("paths.containerd", &self.paths.containerd),
        ] {
            if !path.is_absolute() {
                return out_of_range(key, format!("{} is not an absolute path", path.display()));
            }
        }
        if !(1..=19).contains(&self.save.compression_level) {
            return out_of_range(
                "save.compression-level",
                format!("{} is not between 1 and 19", self.save.compression_level),
            );
        }
        if self.save.lock_timeout_s == 0 || self.save.gpu_timeout_s == 0 {
            return out_of_range("save.*-timeout-s", "0 would wait for ever".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let settings = Settings::parse("").expect("defaults");
        assert_eq!(settings, Settings::default());
        assert_eq!(settings.driver.root, Path::new("/"));
        assert_eq!(settings.save.gpu_deadline(80 << 30), Duration::from_secs(140));
    }

    #[test]
    fn the_file_for_operators_shows_the_defaults() {
        let shown = Settings::parse(include_str!("../files/config.toml")).expect("it parses");
        assert_eq!(shown, Settings::default());
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        let fault = Settings::parse("[driver]\nroots = \"/x\"\n").expect_err("unknown key");
        assert_eq!(fault.code, Code::Settings);
        assert!(fault.to_string().contains("roots"), "{fault}");
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for text in [
            "[driver]\nroot = \"x\"",
            "[save]\ncompression-level = 40",
            "[save]\nlock-timeout-s = 0",
            "[save]\nlock-timeout-s = -1",
        ] {
            assert_eq!(Settings::parse(text).expect_err(text).code, Code::Settings);
        }
    }
}
