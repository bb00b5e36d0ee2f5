//! Docker on a node: its daemon beside the node's containerd, and its client.

use std::process::{Child, Stdio};

use baton_nodes::{NodeOptions, Output, programs};

use crate::job::{IMAGE, RUNTIME, Status};
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

    /// The node.
    pub fn node(&self) -> &Machine {
        &self.node
    }

    /// Runs `docker` to its end.
    pub fn attempt(&self, words: &[&str]) -> Output {
        self.node.attempt(&[&["docker"], words].concat())
    }

    /// Runs `docker`, which must succeed; what it printed, without the end of the line.
    ///
    /// # Panics
    /// With all it printed, when it fails.
    pub fn ok(&self, words: &[&str]) -> String {
        self.node.ok(&[&["docker"], words].concat()).trim_end().to_owned()
    }

    /// Starts the job without a card, and waits until it counts.
    ///
    /// # Panics
    /// When it does not.
    pub fn run_job(&self, runtime: &str, options: &[&str], name: &str) -> Status {
        let head = ["run", "-d", "--runtime", runtime, "--name", name];
        self.ok(&[&head[..], options, &[IMAGE, "--cpu"]].concat());
        until(&format!("{name} answers"), || {
            let done = self.attempt(&["exec", name, "/counter", "status"]);
            done.status.success().then(|| Status::checked(&done.stdout))
        })
    }

    /// The job's status once it has done that many steps; its checksum is right.
    ///
    /// # Panics
    /// When it does not get there.
    pub fn wait_for_step(&self, name: &str, step: u64) -> Status {
        let status = Status::checked(&self.ok(&["exec", name, "/counter", "wait", &step.to_string()]));
        assert!(status.step >= step, "it answered at step {}", status.step);
        status
    }

    /// The job's status.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn status(&self, name: &str) -> Status {
        Status::checked(&self.ok(&["exec", name, "/counter", "status"]))
    }

    /// A part of what Docker knows of a container, by a template.
    ///
    /// # Panics
    /// When there is no such container.
    pub fn known(&self, name: &str, template: &str) -> String {
        self.ok(&["inspect", "-f", template, name])
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
