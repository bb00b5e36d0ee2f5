//! What a node's containerd, and the clients of its CRI, are told about pods.

use crate::cell::Cell;
use crate::image;

/// Where the network plugins are seen in a node.
pub const PLUGINS: &str = "/opt/cni/bin";

/// The files that are the same on every node, or differ by its address alone.
pub fn files(cell: &Cell) -> Vec<(&'static str, String)> {
    vec![
        ("/etc/containerd/config.toml", format!("{CONFIG}  sandbox = '{}'\n", image::PAUSE)),
        ("/etc/containerd/conf.d/baton.toml", DROP_IN.to_owned()),
        ("/etc/cni/net.d/10-pods.conflist", NETWORK.replace("SUBNET", &cell.pod_subnet())),
        ("/etc/crictl.yaml", CRICTL.to_owned()),
    ]
}

/// The very file that an operator installs.
const DROP_IN: &str = include_str!("../../../config/files/containerd.toml");

/// What a machine without AppArmor and without CAP_SYS_RESOURCE needs, the other runtime handlers, and last the table
/// that the name of the first container's image belongs to. Restoring by CreateContainer has this switch in 2.2 and 2.3;
/// 2.1 does it without, 2.0 and 2.4 cannot, and all of them pass over a switch that they do not know.
const CONFIG: &str = "\
version = 3
imports = ['/etc/containerd/conf.d/*.toml']

[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = true
  enable_experimental_restore_via_create = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['/opt/cni/bin']
  conf_dir = '/etc/cni/net.d'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.baton-name]
  runtime_type = 'io.containerd.baton.v2'
  pod_annotations = ['io.baton.*']
  container_annotations = ['io.baton.*']

[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = '/etc/containerd/certs.d'

[plugins.'io.containerd.cri.v1.images'.pinned_images]
";

const CRICTL: &str = "\
runtime-endpoint: unix:///run/containerd/containerd.sock
image-endpoint: unix:///run/containerd/containerd.sock
timeout: 30
";

/// Pods reach each other and the node; what leaves the node keeps its address, so nothing needs iptables but ports.
const NETWORK: &str = r#"{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "ipMasq": false,
      "hairpinMode": true,
      "ipam": { "type": "host-local", "ranges": [[{ "subnet": "SUBNET" }]], "routes": [{ "dst": "0.0.0.0/0" }] }
    },
    { "type": "portmap", "capabilities": { "portMappings": true } }
  ]
}
"#;
