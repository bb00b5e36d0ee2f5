//! The control plane, as the command lines of its programs.

use crate::daemon::Daemon;
use crate::papers::{CHECKING_KEY, KUBECONFIG, PORT, SIGNING_KEY, TOKENS};

/// Where etcd answers.
const ETCD: &str = "http://127.0.0.1:2379";
/// Where the API server puts the certificate that it makes for itself.
const CERTIFICATES: &str = "/var/lib/kubernetes";

/// What its programs are called.
pub const NAMES: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Its programs, for a node of that address. Each waits for those before it.
pub fn daemons(address: &str) -> Vec<Daemon> {
    vec![etcd(), api_server(address), controllers(), scheduler()]
}

/// It need not survive the machine, so it waits for no disk.
fn etcd() -> Daemon {
    let client = format!("--listen-client-urls={ETCD}");
    let advertised = format!("--advertise-client-urls={ETCD}");
    let peers = "--listen-peer-urls=http://127.0.0.1:2380";
    Daemon::new(
        "etcd",
        ["--data-dir=/var/lib/etcd", "--unsafe-no-fsync", "--log-level=warn", peers, &client, &advertised],
    )
}

/// It refuses to be found on the loopback interface.
fn api_server(address: &str) -> Daemon {
    Daemon::new(
        "kube-apiserver",
        [
            format!("--etcd-servers={ETCD}"),
            format!("--bind-address={address}"),
            format!("--advertise-address={address}"),
            format!("--secure-port={PORT}"),
            format!("--cert-dir={CERTIFICATES}"),
            format!("--token-auth-file={TOKENS}"),
            "--authorization-mode=AlwaysAllow".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={CHECKING_KEY}"),
            format!("--service-account-signing-key-file={SIGNING_KEY}"),
            "--profiling=false".to_owned(),
        ],
    )
}

/// A node that is lost is seen to be so after ten seconds rather than after most of a minute.
fn controllers() -> Daemon {
    Daemon::new(
        "kube-controller-manager",
        [
            format!("--kubeconfig={KUBECONFIG}"),
            format!("--service-account-private-key-file={SIGNING_KEY}"),
            format!("--root-ca-file={CERTIFICATES}/apiserver.crt"),
            "--leader-elect=false".to_owned(),
            "--node-monitor-period=1s".to_owned(),
            "--node-monitor-grace-period=10s".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            "--profiling=false".to_owned(),
        ],
    )
}

fn scheduler() -> Daemon {
    let found = format!("--kubeconfig={KUBECONFIG}");
    Daemon::new("kube-scheduler", [&*found, "--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false"])
}
