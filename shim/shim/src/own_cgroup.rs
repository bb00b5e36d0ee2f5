//! The cgroup of a container that is restored from a folder of CRIU's images. Its config.json is that of the saved
//! container, down to the name of the cgroup; beside the saved one, or beside another restored from the same images,
//! it must have one of its own: they would be frozen, measured and killed together.

use baton_devices::Config;
use serde_json::Value;

/// Puts the container's own id in the place of another's in the last name of the cgroup's path: `/PARENT/ID`, or
/// `SLICE:PREFIX:ID` where systemd makes the cgroups. What is above it, with its limits, stays. Whether anything changed.
pub fn name_after(id: &str, config: &mut Config) -> bool {
    let Some(Value::String(path)) = config.value.pointer_mut("/linux/cgroupsPath") else { return false };
    let Some(at) = path.rfind(if path.matches(':').count() == 2 { ':' } else { '/' }) else { return false };
    // The CRI's are named after the container too, with something before and behind.
    if path[at + 1..].is_empty() || path[at + 1..].contains(id) {
        return false;
    }
    path.truncate(at + 1);
    path.push_str(id);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(path: &str) -> String {
        let mut config = Config { value: json!({ "linux": { "cgroupsPath": path } }) };
        let changed = name_after("again", &mut config);
        let now = config.value["linux"]["cgroupsPath"].as_str().expect("a path").to_owned();
        assert_eq!(changed, now != path, "{path}");
        now
    }

    #[test]
    fn another_containers_name_gives_way_and_the_folders_above_stay() {
        assert_eq!(named("/default/job"), "/default/again");
        assert_eq!(named("/a/b/job"), "/a/b/again");
        assert_eq!(named("job.slice:cri-containerd:job"), "job.slice:cri-containerd:again");
    }

    #[test]
    fn a_cgroup_of_its_own_stays() {
        for path in ["/default/again", "/kubepods/pod1/again", "a.slice:nerdctl:again", "/a/cri-again.scope", "/a/", ""]
        {
            assert_eq!(named(path), path);
        }
        let mut none = Config { value: json!({ "linux": {} }) };
        assert!(!name_after("again", &mut none));
    }
}
