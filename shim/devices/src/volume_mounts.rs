//! A request by volume mounts: whoever may mount files of the host has /dev/null mounted under the name of each device.
//! Unlike the environment, no image can bring that (`devices.md` §3.4).

use std::path::{Component, Path};

use serde_json::Value;

/// Where such mounts lie; and, as the value of the environment, the word that a request is to be read from them.
pub const FOLDER: &str = "/var/run/nvidia-container-devices";
/// What is mounted.
const SOURCE: &str = "/dev/null";

/// The names of the devices that are asked for so, in the order of their mounts.
pub fn names(config: &Value) -> Vec<&str> {
    let mounts = config.get("mounts").and_then(Value::as_array);
    mounts.into_iter().flatten().filter_map(name).collect()
}

/// Takes those mounts out: they have said what they are for.
pub fn remove(config: &mut Value) {
    if let Some(mounts) = config.get_mut("mounts").and_then(Value::as_array_mut) {
        mounts.retain(|mount| name(mount).is_none());
    }
}

/// The device that a mount names, if it is one of those.
fn name(mount: &Value) -> Option<&str> {
    let text = |field: &str| mount.get(field).and_then(Value::as_str);
    if text("source") != Some(SOURCE) {
        return None;
    }
    let below = text("destination")?.strip_prefix(FOLDER)?.strip_prefix('/')?;
    // What is not a plain path below the folder names no device, and stays an ordinary mount.
    let plain = Path::new(below).components().all(|part| matches!(part, Component::Normal(_)));
    (plain && !below.is_empty()).then_some(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_mounts_of_dev_null_below_the_folder_name_devices() {
        let mount = |source: &str, destination: &str| json!({"source": source, "destination": destination});
        let mut config = json!({"mounts": [
            mount("/dev/null", "/var/run/nvidia-container-devices/GPU-1"),
            mount("/etc/passwd", "/var/run/nvidia-container-devices/GPU-2"),
            mount("/dev/null", "/var/run/nvidia-container-devices"),
            mount("/dev/null", "/var/run/nvidia-container-devices/"),
            mount("/dev/null", "/var/run/nvidia-container-devices-of-mine/GPU-3"),
            mount("/dev/null", "/var/run/nvidia-container-devices/../../GPU-4"),
            mount("/dev/null", "/var/run/nvidia-container-devices/cdi/nvidia.com/gpu/0"),
        ]});
        assert_eq!(names(&config), ["GPU-1", "cdi/nvidia.com/gpu/0"]);
        remove(&mut config);
        assert_eq!(names(&config), Vec::<&str>::new());
        assert_eq!(config["mounts"].as_array().map(Vec::len), Some(5));
        remove(&mut json!({}));
    }
}
