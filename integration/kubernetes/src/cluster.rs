//! A cluster: some nodes, the first of which has the control plane too.

use std::path::PathBuf;
use std::process::Command;
use std::thread;

use baton_fault::{Code, Fault, Result};
use baton_nodes::cell::Cell;
use baton_nodes::{Node, NodeOptions, Output, house};

use crate::daemon::Daemon;
use crate::papers::KUBECONFIG;
use crate::{control, host, kubelet, papers};

/// What a cluster's nodes have installed, as `integration/programs` calls it.
const PROGRAMS: [&str; 2] = ["etcd", "kubernetes"];
/// Longest wait for the control plane, and for the nodes; 5 s are usual, the rest is for a busy machine.
const READY_SECONDS: u32 = 120;
/// How `kubectl` finds the cluster, on every node.
const KUBECTL: [&str; 3] = ["kubectl", "--kubeconfig", KUBECONFIG];
/// The files that an operator applies.
const RUNTIME_CLASS: &str = include_str!("../../../config/files/runtimeclass.yaml");
/// Every other handler of the test nodes as a class of the same name.
const OTHER_CLASSES: &str = "
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: runc}, handler: runc}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: baton-name}, handler: baton-name}
";

/// How a cluster is to be.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// What its nodes' names begin with; they go on with `-1`, `-2` and so on.
    pub name: String,
    /// How many nodes, 1 to 9.
    pub nodes: u32,
    /// Another containerd, by version or folder.
    pub containerd: Option<PathBuf>,
    /// Simulated cards, by the number of the node.
    pub cards: Vec<(u32, String)>,
}

impl ClusterOptions {
    /// Two nodes without cards.
    pub fn new(name: impl Into<String>) -> ClusterOptions {
        ClusterOptions { name: name.into(), nodes: 2, containerd: None, cards: Vec::new() }
    }

    /// With these cards on that node.
    #[must_use]
    pub fn cards(mut self, node: u32, cards: impl Into<String>) -> ClusterOptions {
        self.cards.push((node, cards.into()));
        self
    }
}

/// A running cluster; it is taken down when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

impl Cluster {
    /// Starts one and waits until its nodes are ready for pods.
    ///
    /// # Errors
    /// What did not come up, with the last line of its log. Nothing is left then.
    pub fn up(options: &ClusterOptions) -> Result<Cluster> {
        let cluster = Cluster { nodes: start_nodes(options)? };
        let cells = cluster.cells()?;
        let first = cells[0].address();
        let papers = papers::files(&first)?;
        for (node, own) in cluster.nodes.iter().zip(&cells) {
            let others = cells.iter().filter(|cell| cell.name != own.name);
            let others: Vec<_> = others.map(|cell| (cell.pod_subnet(), cell.address())).collect();
            host::prepare(node, &papers, &others)?;
        }
        for daemon in control::daemons(&first) {
            daemon.start(&cluster.nodes[0])?;
        }
        for (node, cell) in cluster.nodes.iter().zip(&cells) {
            kubelet::daemon(node.name(), &cell.address()).start(node)?;
        }
        cluster.wait_until_ready().map_err(|fault| fault.during("start a cluster"))?;
        Ok(cluster)
    }

    /// The cluster of that name, which runs already.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is none.
    pub fn running(name: &str) -> Result<Cluster> {
        let own = names(name);
        if own.is_empty() {
            return Err(Fault::new(Code::NotFound, format!("find cluster {name}"), "there is none of that name")
                .advise("integration/cluster up"));
        }
        Ok(Cluster { nodes: own.iter().map(|name| Node::running(name)).collect::<Result<_>>()? })
    }

    /// Lets it run on.
    pub fn leave(self) {
        self.nodes.into_iter().for_each(Node::leave);
    }

    /// Stops its nodes.
    ///
    /// # Errors
    /// What could not be stopped, after all else was.
    pub fn down(self) -> Result<()> {
        let stopped: Vec<_> = self.nodes.into_iter().map(Node::stop).collect();
        stopped.into_iter().collect()
    }

    /// Its nodes; the first has the control plane.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The kubelet of one of its nodes.
    ///
    /// # Errors
    /// `NOT_FOUND` when the node does not run.
    pub fn kubelet(&self, node: &Node) -> Result<Daemon> {
        Ok(kubelet::daemon(node.name(), &Cell::load(node.name())?.address()))
    }

    /// A call of `kubectl`; how its input and output go is the caller's business.
    pub fn kubectl(&self, words: &[&str]) -> Command {
        self.nodes[0].command(kubectl_line(words))
    }

    /// Runs `kubectl`, which must succeed, and returns what it printed.
    ///
    /// # Errors
    /// `SYSTEM` with what it said.
    pub fn ok(&self, words: &[&str]) -> Result<String> {
        let done = self.run(words)?;
        if done.status.success() {
            return Ok(done.stdout);
        }
        Err(Fault::new(Code::System, format!("kubectl {}", words.join(" ")), done.stderr.trim()))
    }

    /// Runs `kubectl` to its end.
    ///
    /// # Errors
    /// Only when it could not be run at all.
    pub fn run(&self, words: &[&str]) -> Result<Output> {
        self.nodes[0].run(&kubectl_line(words))
    }

    /// Applies a manifest.
    ///
    /// # Errors
    /// `SYSTEM` with what `kubectl` said.
    pub fn apply(&self, manifest: &str) -> Result<()> {
        // The manifest is an argument, so that it needs neither a file nor a pipe.
        let script = format!("printf %s \"$0\" | {} apply -f -", KUBECTL.join(" "));
        self.nodes[0].ok(&["sh", "-c", &script, manifest]).map(|_| ())
    }

    fn cells(&self) -> Result<Vec<Cell>> {
        self.nodes.iter().map(|node| Cell::load(node.name())).collect()
    }

    fn wait_until_ready(&self) -> Result<()> {
        // Each of these asks until it is answered: nothing tells when a server begins to listen.
        self.until("the API server answers", "get --raw=/readyz")?;
        self.apply(&format!("{RUNTIME_CLASS}{OTHER_CLASSES}"))?;
        self.until("every pod has an identity", "get serviceaccount/default configmap/kube-root-ca.crt")?;
        let nodes: Vec<_> = self.nodes.iter().map(|node| format!("node/{}", node.name())).collect();
        let nodes = nodes.join(" ");
        self.until("the nodes are known", &format!("get {nodes}"))?;
        self.until("the nodes are ready", &format!("wait --for=condition=Ready --timeout=10s {nodes}"))
    }

    fn until(&self, what: &str, words: &str) -> Result<()> {
        let daemons = control::NAMES.join(" ");
        let script = format!(
            "end=$(($(date +%s) + {READY_SECONDS}))
            until said=$(kubectl --kubeconfig={KUBECONFIG} {words} 2>&1); do
                [ $(date +%s) -lt $end ] || {{ echo \"$said\" | tail -n 1; exit 1; }}
                for daemon in {daemons}; do
                    kill -0 $(cat /run/$daemon.pid) || {{ echo $daemon has ended: $(tail -n 1 /var/log/$daemon.log); exit 1; }}
                done
                sleep 0.1
            done"
        );
        let done = self.nodes[0].run(&["sh", "-c", &script])?;
        if done.status.success() {
            return Ok(());
        }
        Err(Fault::new(Code::Deadline, format!("wait until {what}"), done.stdout.trim().replace('\n', "; ")))
    }
}

fn kubectl_line<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&KUBECTL, words].concat()
}

/// The names of the running nodes of the cluster of that name, in order.
fn names(cluster: &str) -> Vec<String> {
    let mut own: Vec<_> = house::names().into_iter().filter(|name| belongs(name, cluster)).collect();
    own.sort();
    own
}

fn belongs(node: &str, cluster: &str) -> bool {
    let number = node.strip_prefix(cluster).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']))
}

fn start_nodes(options: &ClusterOptions) -> Result<Vec<Node>> {
    if !(1..=9).contains(&options.nodes) {
        let why = format!("{} is not a number of nodes from 1 to 9", options.nodes);
        return Err(Fault::new(Code::Usage, "start a cluster", why));
    }
    let start = |number: u32| {
        let mut node = NodeOptions::new(format!("{}-{number}", options.name));
        node.containerd.clone_from(&options.containerd);
        node.cards = options.cards.iter().find(|(of, _)| *of == number).map(|(_, cards)| cards.clone());
        node.programs = PROGRAMS.map(str::to_owned).to_vec();
        Node::start(node)
    };
    thread::scope(|scope| {
        let begun: Vec<_> = (1..=options.nodes).map(|number| scope.spawn(move || start(number))).collect();
        let ended = || Fault::new(Code::System, "start a node", "its thread ended");
        let started: Vec<_> = begun.into_iter().map(|node| node.join().unwrap_or_else(|_| Err(ended()))).collect();
        started.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_belongs_to_the_cluster_of_its_name_and_to_no_other() {
        assert!(belongs("k8s-1", "k8s") && belongs("a-b-9", "a-b"));
        for (node, cluster) in [("k8s-1", "k8"), ("k8s-0", "k8s"), ("k8s-10", "k8s"), ("k8s", "k8s"), ("a-b-1", "a")] {
            assert!(!belongs(node, cluster), "{node} {cluster}");
        }
    }
}
