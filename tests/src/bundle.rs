//! A bundle on a node, made from the image that every node has, for an engine that is run by hand.

use std::fs;

use serde_json::{Value, json};

use crate::job::IMAGE;
use crate::machine::Machine;

impl Machine {
    /// Makes the bundle `path` for a program; `change` gets its config.json, which is runc's example.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn bundle(&self, path: &str, program: &[&str], change: impl FnOnce(&mut Value)) {
        // A place of its own for each: containerd 2.4 remembers where it has mounted something.
        let script = format!(
            "mkdir -p {path}/image {path}/rootfs && ctr image mount {IMAGE} {path}/image >/dev/null \
             && cp -a {path}/image/. {path}/rootfs/ && umount {path}/image && runc spec --bundle {path}"
        );
        self.ok(&["sh", "-c", &script]);
        let file = self.root_path(&format!("{path}/config.json"));
        let text = fs::read(&file).expect("a config.json");
        let mut config: Value = serde_json::from_slice(&text).expect("JSON");
        config["process"]["terminal"] = json!(false);
        config["process"]["args"] = json!(program);
        config["root"]["readonly"] = json!(false);
        change(&mut config);
        fs::write(&file, config.to_string()).expect("write config.json");
    }
}
