//! What a kubelet wants of the machine that a test node is, without a change to the machine around it.

use std::fs;
use std::path::Path;

use baton_fault::{Attempt, Result};
use baton_nodes::Node;

use crate::kubelet;

/// Settings of the whole kernel that a kubelet writes where they differ. It is shown files that say what it wants.
const SETTINGS: &[(&str, &str)] = &[
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];
/// Where those files lie on a node.
const SHOWN: &str = "/run/kubernetes/settings";
/// CRIU's configuration when runc calls it: without iptables it could lock no network.
const CRIU: (&str, &str) = ("/etc/criu/runc.conf", "network-lock skip\n");

/// Prepares a node: files, mounts, and the ways to the pods of the `others`, by subnet and address of their node.
///
/// # Errors
/// What could not be made.
pub fn prepare(node: &Node, papers: &[(&'static str, String)], others: &[(String, String)]) -> Result<()> {
    for (path, text) in papers
        .iter()
        .map(|(path, text)| (*path, text.as_str()))
        .chain([(kubelet::CONFIG, kubelet::CONFIGURATION), CRIU])
    {
        write(node, path, text)?;
    }
    for (name, value) in SETTINGS {
        write(node, &format!("{SHOWN}/{name}"), &format!("{value}\n"))?;
    }
    let mut script = String::from(SCRIPT);
    for (subnet, address) in others {
        script += &format!("ip route add {subnet} via {address}\n");
    }
    node.ok(&["sh", "-ec", &script]).map(|_| ())
}

/// Volumes are mounted from the node into pods, so mounts must spread. Without a device for the kernel's log the kubelet
/// does not start; what is read from it is nothing.
const SCRIPT: &str = "\
mount --make-rshared /
mkdir -p /var/lib/kubelet /var/lib/etcd /var/lib/kubernetes
ln -sf /dev/null /dev/kmsg
echo 1 >/proc/sys/net/ipv4/ip_forward
";

/// A script that shows whoever it becomes (`"$@"`) those files where the settings are, and nobody else: where /proc is
/// covered in part, no container with users of its own can have a /proc.
pub fn shown_settings() -> String {
    let mut script = String::from("mount --make-private /proc\n");
    for (name, _) in SETTINGS {
        script += &format!("mount --bind {SHOWN}/{name} /proc/sys/{name}\n");
    }
    script + "exec \"$0\" \"$@\""
}

fn write(node: &Node, path: &str, text: &str) -> Result<()> {
    let path = node.root_path(path);
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).attempt(|| format!("make {}", folder.display()))?;
    fs::write(&path, text).attempt(|| format!("write {}", path.display()))
}
