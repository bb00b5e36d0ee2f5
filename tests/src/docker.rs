//! Docker on a node: its daemon beside the node's containerd, and its client.

use std::process::{Child, Stdio};

use baton_nodes::{NodeOptions, programs};

use crate::client::Client;
use crate::job::{IMAGE, RUNTIME};
use crate::machine::Machine;
use crate::until::until;

/// Networks that pass no firewall, Baton as one more runtime, and checkpoints, which count as experimental.
const SETTINGS: &str = r#"{"containerd": "/run/containerd/containerd.sock", "storage-driver": "overlay2",
    "bridge": "none", "iptables": false, "ip6tables": false, "experimental": true}"#;

/// A node with Docker's daemon, which has the image of the job.
#[derive(Debug)]
pub struct Docker {
    node: Machine,
    daemon: Child,
}

impl Docker {
    /// Starts a node and Docker on it.
    ///
    /// # Panics
    /// When either does not start.
    pub fn start(name: &str, cards: &str) -> Docker {
        let folder = programs::docker().unwrap_or_else(|fault| panic!("{fault}"));
        let node = Machine::with(NodeOptions::new(name).cards(cards).containerd(folder));
        node.write("/etc/docker/daemon.json", SETTINGS);
        let daemon = node
            .command(["sh", "-c", "exec dockerd >/var/log/dockerd.log 2>&1"])
            .stdin(Stdio::null())
            .spawn()
            .expect("run dockerd");
        let docker = Docker { node, daemon };
        until("Docker's daemon answers", || docker.attempt(&["version"]).status.success().then_some(()));
        docker.node.ok(&[
            "sh",
            "-c",
            &format!("ctr image export /tmp/job.tar {IMAGE} && docker load -qi /tmp/job.tar"),
        ]);
        docker
    }
}

impl Client for Docker {
    const PROGRAM: (&'static str, &'static [&'static str]) = ("docker", &[]);

    fn node(&self) -> &Machine {
        &self.node
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.node.root_path("/var/log/dockerd.log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("--- log of Docker's daemon:\n{}\n---", lines[lines.len().saturating_sub(30)..].join("\n"));
        }
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// The runtimes of which Docker's users must see no difference: runc, and Baton.
pub const RUNTIMES: [&str; 2] = ["runc", RUNTIME];
