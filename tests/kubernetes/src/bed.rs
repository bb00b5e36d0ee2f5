//! The cluster that tests share.

use std::ops::Deref;
use std::sync::{Arc, Mutex, Weak};

use baton_kubernetes::{Cluster, ClusterOptions};
use baton_nodes::Node;
use serde_json::Value;

/// A cluster in a test; what goes wrong on it panics with what `kubectl` said.
#[derive(Debug)]
pub struct Bed {
    cluster: Cluster,
}

impl Deref for Bed {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Bed {
    /// The one that the tests of a program share: it is there as long as one of them holds it.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn shared() -> Arc<Bed> {
        static SHARED: Mutex<Weak<Bed>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shared.upgrade().unwrap_or_else(|| {
            let bed = Arc::new(Bed::up(ClusterOptions::new("shared")));
            *shared = Arc::downgrade(&bed);
            bed
        })
    }

    /// One of a test's own. Its name gets the number of this process, so that two runs on one machine do not meet.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn up(mut options: ClusterOptions) -> Bed {
        options.name = format!("{}{}", options.name, std::process::id());
        options.containerd = options.containerd.or_else(|| std::env::var_os("BATON_TEST_CONTAINERD").map(Into::into));
        Bed { cluster: Cluster::up(&options).unwrap_or_else(|fault| panic!("{fault}")) }
    }

    /// The cluster itself.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What `kubectl` prints; it must succeed.
    ///
    /// # Panics
    /// With what it said when it does not.
    pub fn kubectl(&self, words: &[&str]) -> String {
        self.cluster.ok(words).unwrap_or_else(|fault| panic!("{fault}"))
    }

    /// An object as the API has it.
    ///
    /// # Panics
    /// When there is none.
    pub fn get(&self, what: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", what, "-o", "json"])).expect("what kubectl prints")
    }

    /// What the API server answers at that path.
    ///
    /// # Panics
    /// When it refuses.
    pub fn raw(&self, path: &str) -> String {
        self.kubectl(&["get", "--raw", path])
    }

    /// The node of that name.
    ///
    /// # Panics
    /// When the cluster has none.
    pub fn node(&self, name: &str) -> &Node {
        self.cluster.nodes().iter().find(|node| node.name() == name).expect("a node of the cluster")
    }
}
