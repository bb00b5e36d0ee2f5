//! config.json of a bundle, as JSON: whatever is not edited stays as it was. Numbers keep their value, not their spelling
//! (`1.50` becomes `1.5`); an integer beyond 64 bits, which the runtime specification has nowhere, becomes the nearest
//! floating-point number.

use std::io::Read;
use std::path::Path;

use baton_fault::{Attempt, Code, Fault, Result};
use serde_json::Value;

/// Largest config.json that is read, in bytes.
const CONFIG_MAX: u64 = 16 << 20;

/// config.json of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// All of it.
    pub value: Value,
}

impl Config {
    /// Reads the config of `bundle`.
    ///
    /// # Errors
    /// `FILE` or `BUNDLE` when it is missing, too long or no JSON.
    pub fn read(bundle: &Path) -> Result<Config> {
        let path = bundle.join("config.json");
        let what = || format!("read {}", path.display());
        let mut text = Vec::new();
        let opened = std::fs::File::open(&path).attempt(what)?;
        opened.take(CONFIG_MAX + 1).read_to_end(&mut text).attempt(what)?;
        if text.len() as u64 > CONFIG_MAX {
            return Err(Fault::new(Code::Bundle, what(), format!("it has more than {CONFIG_MAX} bytes"))
                .advise("shorten its annotations or environment"));
        }
        let value = serde_json::from_slice(&text)
            .map_err(|err| Fault::new(Code::Bundle, what(), err).advise("write a valid OCI config.json"))?;
        Ok(Config { value })
    }

    /// Writes it back into `bundle`, whole or not at all.
    ///
    /// # Errors
    /// Of the file operation.
    pub fn write(&self, bundle: &Path) -> Result<()> {
        let (path, new) = (bundle.join("config.json"), bundle.join("config.json.new"));
        let what = || format!("write {}", path.display());
        let text = serde_json::to_vec(&self.value).map_err(|err| Fault::new(Code::Bundle, what(), err))?;
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)).attempt(what)
    }

    /// The annotation of that name.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.value.get("annotations")?.get(name)?.as_str()
    }

    /// Destinations of the mounts.
    pub fn mounts(&self) -> Vec<String> {
        let mounts = self.value.get("mounts").and_then(Value::as_array);
        mounts
            .into_iter()
            .flatten()
            .filter_map(|mount| mount.get("destination")?.as_str())
            .map(str::to_string)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_and_their_order_are_kept() {
        let bundle = tempfile::tempdir().expect("folder");
        let text = r#"{"zeta":1,"annotations":{"io.baton.devices":"0"},"mounts":[{"destination":"/proc"},{"destination":"/x"}],"alpha":[null,1.5]}"#;
        std::fs::write(bundle.path().join("config.json"), text).expect("write");
        let config = Config::read(bundle.path()).expect("read");
        assert_eq!(config.annotation("io.baton.devices"), Some("0"));
        assert_eq!(config.mounts(), ["/proc", "/x"]);
        config.write(bundle.path()).expect("write back");
        assert_eq!(std::fs::read_to_string(bundle.path().join("config.json")).expect("read"), text);
    }

    #[test]
    fn numbers_keep_their_values() {
        let bundle = tempfile::tempdir().expect("folder");
        // The last five are those that a quick reader of decimal fractions gets wrong in the last bit.
        let numbers = "[9223372036854775807,-9223372036854775808,18446744073709551615,9007199254740993,0,-1,0.1,1e-7,\
            5e-324,1.7976931348623157e+308,51.248178375505404,-93.31137037688033,-36.573994842753436,\
            52.314008204106244,97.45365320034685]";
        let text = format!("{{\"numbers\":{numbers},\"spelt\":[1.50,1E2,1.0]}}");
        std::fs::write(bundle.path().join("config.json"), text).expect("write");
        Config::read(bundle.path()).and_then(|config| config.write(bundle.path())).expect("rewritten");
        let now = std::fs::read_to_string(bundle.path().join("config.json")).expect("read");
        assert_eq!(now, format!("{{\"numbers\":{numbers},\"spelt\":[1.5,100.0,1.0]}}"));
    }

    #[test]
    fn a_missing_and_a_cut_config_are_told_apart() {
        let bundle = tempfile::tempdir().expect("folder");
        assert_eq!(Config::read(bundle.path()).expect_err("missing").code, Code::File);
        std::fs::write(bundle.path().join("config.json"), "{\"mounts\": [").expect("write");
        assert_eq!(Config::read(bundle.path()).expect_err("cut").code, Code::Bundle);
    }
}
