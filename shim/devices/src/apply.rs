//! A checked plan's edits to config.json. What the edits do not concern stays as it is, unknown fields too; a
//! second run changes nothing.

use baton_fault::{Code, Fault, Result};
use serde_json::{Map, Value, json};

use crate::{CheckedPlan, DeviceNode, DeviceRule, Hook, Mount, volume_mounts};

/// How a file of the driver is mounted.
const MOUNT_OPTIONS: [&str; 5] = ["ro", "nosuid", "nodev", "rbind", "rprivate"];

impl CheckedPlan {
    /// Edits `config`, the content of a config.json.
    ///
    /// # Errors
    /// `BUNDLE` when it is not the config of a Linux container, or mounts something else where a library goes;
    /// then `config` is as it was.
    pub fn apply(&self, config: &mut Value) -> Result<()> {
        let mut edited = config.clone();
        let plan = self.plan();
        for node in &plan.nodes {
            put_node(list(&mut edited, &["linux", "devices"])?, node);
        }
        let rules = list(&mut edited, &["linux", "resources", "devices"])?;
        if rules.is_empty() {
            rules.push(json!({"allow": false, "access": "rwm"}));
        }
        for rule in &plan.rules {
            put_rule(rules, rule);
        }
        volume_mounts::remove(&mut edited);
        for mount in &plan.mounts {
            put_mount(list(&mut edited, &["mounts"])?, mount)?;
        }
        for variable in &plan.env {
            put_variable(list(&mut edited, &["process", "env"])?, variable);
        }
        for hook in &plan.hooks {
            put_hook(list(&mut edited, &["hooks", "createContainer"])?, hook);
        }
        *config = edited;
        Ok(())
    }
}

fn put_node(nodes: &mut Vec<Value>, node: &DeviceNode) {
    let entry = json!({
        "path": node.path,
        "type": "c",
        "major": node.major,
        "minor": node.minor,
        "fileMode": node.mode,
        "uid": node.uid,
        "gid": node.gid,
    });
    let path = entry["path"].clone();
    put(nodes, entry, |other| other.get("path") == Some(&path));
}

/// Rules count in their order: the new ones come after those that deny.
fn put_rule(rules: &mut Vec<Value>, rule: &DeviceRule) {
    let entry = json!({"allow": true, "type": "c", "major": rule.major, "minor": rule.minor, "access": "rw"});
    if !rules.contains(&entry) {
        rules.push(entry);
    }
}

fn put_mount(mounts: &mut Vec<Value>, mount: &Mount) -> Result<()> {
    let entry = json!({
        "destination": mount.destination,
        "type": "bind",
        "source": mount.source,
        "options": MOUNT_OPTIONS,
    });
    let at = |other: &&Value| other.get("destination") == entry.get("destination");
    if let Some(other) = mounts.iter().find(at).filter(|other| **other != entry) {
        let source = other.get("source").and_then(Value::as_str).unwrap_or("something else");
        return Err(Fault::new(
            Code::Bundle,
            format!("mount the driver's {}", mount.destination.display()),
            format!("the container mounts {source} there"),
        )
        .advise("leave that mount out: Baton brings the driver's files"));
    }
    if !mounts.contains(&entry) {
        mounts.push(entry);
    }
    Ok(())
}

/// Takes the place of the first entry of that name; further ones go, since the last would win.
fn put_variable(env: &mut Vec<Value>, variable: &str) {
    let name = variable.split_once('=').map_or(variable, |(name, _)| name);
    let same =
        |other: &Value| other.as_str().and_then(|text| text.split_once('=')).is_some_and(|(other, _)| other == name);
    let first = env.iter().position(&same).unwrap_or(env.len());
    env.retain(|other| !same(other));
    env.insert(first, variable.into());
}

fn put_hook(hooks: &mut Vec<Value>, hook: &Hook) {
    // An empty environment: nothing of the container's reaches a program that runs as root.
    let entry = json!({"path": hook.path, "args": hook.args, "env": []});
    let path = entry["path"].clone();
    put(hooks, entry, |other| other.get("path") == Some(&path));
}

fn put(list: &mut Vec<Value>, entry: Value, same: impl Fn(&Value) -> bool) {
    match list.iter_mut().find(|other| same(other)) {
        Some(other) => *other = entry,
        None => list.push(entry),
    }
}

/// The list at that place; what is missing or null on the way is made.
fn list<'a>(config: &'a mut Value, path: &[&str]) -> Result<&'a mut Vec<Value>> {
    let refuse = |what: &str| {
        Fault::new(Code::Bundle, format!("edit {} in config.json", path.join(".")), format!("not {what}"))
            .advise("the config must be one of the OCI runtime specification")
    };
    let mut place = config;
    for name in path {
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
        place = place.as_object_mut().ok_or_else(|| refuse("an object"))?.entry(*name).or_insert(Value::Null);
    }
    if place.is_null() {
        *place = Value::Array(Vec::new());
    }
    place.as_array_mut().ok_or_else(|| refuse("a list"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeDriver, inventory};
    use crate::{CardRef, Plan, Request};
    use std::path::Path;

    fn checked(fake: &FakeDriver) -> CheckedPlan {
        let request = Request::Cards(vec![CardRef::Index(1)]);
        let plan = Plan::resolve(&request, &inventory(), &fake.driver(), Path::new("/bin/true")).expect("plan");
        plan.check().expect("checked")
    }

    fn config() -> Value {
        json!({
            "ociVersion": "1.2.0",
            "unknown": {"kept": [1, 2]},
            "process": {"env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=1", "A=b", "NVIDIA_VISIBLE_DEVICES=all"], "cwd": "/"},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {
                "resources": {"devices": [{"allow": false, "access": "rwm"}, {"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm"}]},
                "devices": null
            }
        })
    }

    #[test]
    fn everything_of_the_plan_is_there_and_nothing_else_changed() {
        let fake = FakeDriver::new();
        let mut config = config();
        checked(&fake).apply(&mut config).expect("applied");
        assert_eq!(config["unknown"], json!({"kept": [1, 2]}));
        assert_eq!(config["process"]["env"], json!(["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=void", "A=b"]));
        assert_eq!(
            config["linux"]["devices"][0],
            json!({"path": "/dev/nvidia3", "type": "c", "major": 195, "minor": 3, "fileMode": 0o666, "uid": 0, "gid": 0})
        );
        assert_eq!(config["linux"]["devices"].as_array().expect("list").len(), 4);
        let rules = config["linux"]["resources"]["devices"].as_array().expect("list");
        assert_eq!(rules[0], json!({"allow": false, "access": "rwm"}));
        assert_eq!(rules[2], json!({"allow": true, "type": "c", "major": 195, "minor": 3, "access": "rw"}));
        assert_eq!(rules.len(), 6);
        assert!(!rules.iter().any(|rule| rule["major"] == 195 && rule["minor"] == 0), "the other card is let through");
        let mounts = config["mounts"].as_array().expect("list");
        let cuda =
            mounts.iter().find(|mount| mount["destination"] == "/usr/lib64/libcuda.so.570.124.06").expect("cuda");
        assert_eq!(cuda["options"], json!(["ro", "nosuid", "nodev", "rbind", "rprivate"]));
        assert_eq!(mounts[0]["destination"], "/proc");
        assert_eq!(config["hooks"]["createContainer"][0]["path"], "/bin/true");
        assert_eq!(config["hooks"]["createContainer"][0]["env"], json!([]));
    }

    #[test]
    fn a_second_run_gives_the_same_bytes() {
        let fake = FakeDriver::new();
        let plan = checked(&fake);
        for mut config in [config(), json!({})] {
            plan.apply(&mut config).expect("applied");
            let once = serde_json::to_string(&config).expect("text");
            plan.apply(&mut config).expect("applied again");
            assert_eq!(serde_json::to_string(&config).expect("text"), once);
            assert_eq!(Request::from_config(&config), Ok(None), "an injected container asks for nothing");
        }
    }

    #[test]
    fn without_rules_everything_else_is_denied_first() {
        let fake = FakeDriver::new();
        let mut config = json!({});
        checked(&fake).apply(&mut config).expect("applied");
        assert_eq!(config["linux"]["resources"]["devices"][0], json!({"allow": false, "access": "rwm"}));
    }

    #[test]
    fn a_config_that_is_none_stays_as_it_was() {
        let fake = FakeDriver::new();
        for bad in [
            json!([]),
            json!({"linux": {"devices": {}}}),
            json!({"hooks": "x"}),
            json!({"mounts": [{"destination": "/usr/lib64/libcuda.so.570.124.06", "source": "/own"}]}),
        ] {
            let mut config = bad.clone();
            assert_eq!(checked(&fake).apply(&mut config).expect_err("refused").code, Code::Bundle);
            assert_eq!(config, bad);
        }
    }
}
