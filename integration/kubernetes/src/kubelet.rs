//! The kubelet of a node.

use crate::daemon::Daemon;
use crate::host;
use crate::papers::KUBECONFIG;

/// Where its configuration lies on a node.
pub const CONFIG: &str = "/etc/kubernetes/kubelet.yaml";

/// The kubelet of a node of that name and address.
pub fn daemon(name: &str, address: &str) -> Daemon {
    let shown = host::shown_settings();
    Daemon::under(
        ["unshare", "--mount", "--propagation", "unchanged", "sh", "-ec", &shown],
        "kubelet",
        [
            format!("--config={CONFIG}"),
            format!("--kubeconfig={KUBECONFIG}"),
            format!("--hostname-override={name}"),
            format!("--node-ip={address}"),
            "--node-labels=io.baton/runtime=true".to_owned(),
        ],
    )
}

/// Its configuration. Whoever reaches it may ask it for anything: only the nodes do. A machine may have cgroup v1, be
/// short of disk, and let nobody raise a priority; none of that is its business here.
pub const CONFIGURATION: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
enableServer: true
resolvConf: ''
registerNode: true
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 8
syncFrequency: 10s
serializeImagePulls: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 1Mi, nodefs.available: 1Mi, imagefs.available: 1Mi}
enforceNodeAllocatable: [pods]
shutdownGracePeriod: 0s
";
