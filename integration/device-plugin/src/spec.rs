//! The CDI spec of a node's cards, of the form that NVIDIA's plugin writes.

use std::path::{Path, PathBuf};

use baton_config::Driver;
use baton_devices::{Inventory, Plan};
use baton_fault::{Attempt, Result};
use serde_json::{Value, json};

/// The kind of its devices.
pub const KIND: &str = "k8s.device-plugin.nvidia.com/gpu";
/// Where containerd looks for it.
const FILE: &str = "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json";
/// The program that makes libraries known inside, in the role of NVIDIA's.
const HOOK: &str = "/usr/local/bin/baton-hook";

/// Writes the spec of these cards.
///
/// # Errors
/// Of the driver's files, or `FILE`.
pub fn write(inventory: &Inventory, driver: &Driver) -> Result<()> {
    let plan = |cards: &[_]| Plan::for_cards(cards, &inventory.driver_version, driver, Path::new(HOOK));
    let all = plan(&[])?;
    let common: Vec<_> = all.nodes.iter().map(|node| node.path.clone()).collect();
    let mut devices = Vec::new();
    for card in &inventory.cards {
        let own = plan(std::slice::from_ref(card))?;
        let nodes: Vec<_> = own.nodes.iter().filter(|node| !common.contains(&node.path)).map(node).collect();
        devices.push(json!({ "name": card.uuid.to_string(), "containerEdits": { "deviceNodes": nodes } }));
    }
    let mounts: Vec<_> = all
        .mounts
        .iter()
        .map(|mount| {
            let options = ["ro", "nosuid", "nodev", "rbind", "rprivate"];
            json!({ "hostPath": mount.source, "containerPath": mount.destination, "options": options })
        })
        .collect();
    let hooks: Vec<_> = all
        .hooks
        .iter()
        .map(|hook| json!({ "hookName": "createContainer", "path": hook.path, "args": hook.args }))
        .collect();
    let spec = json!({
        "cdiVersion": "0.6.0",
        "kind": KIND,
        "devices": devices,
        "containerEdits": {
            "env": all.env,
            "deviceNodes": all.nodes.iter().map(node).collect::<Vec<_>>(),
            "mounts": mounts,
            "hooks": hooks,
        },
    });
    let file = PathBuf::from(FILE);
    let folder = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).attempt(|| format!("make {}", folder.display()))?;
    // containerd reads the folder at any moment.
    let fresh = folder.join(".fresh");
    std::fs::write(&fresh, spec.to_string()).attempt(|| format!("write {}", fresh.display()))?;
    std::fs::rename(&fresh, &file).attempt(|| format!("write {FILE}"))
}

fn node(node: &baton_devices::DeviceNode) -> Value {
    json!({ "path": node.path, "hostPath": node.host, "permissions": "rw" })
}
