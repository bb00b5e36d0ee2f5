//! Pods, as a client of containerd's CRI has them: by `crictl`.

use serde_json::{Value, json};

use crate::job::{IMAGE, Status};
use crate::machine::Machine;
use crate::until::until;

/// The layout that the operator's drop-in has: runc's name, Baton's shim.
pub const BY_PATH: &str = "baton";
/// The layout in which Baton has its own name.
pub const BY_NAME: &str = "baton-name";
/// runc's own shim.
pub const RUNC: &str = "runc";

/// The number of CRI's mode in which each container has a pid namespace, as Kubernetes has it.
pub const PID_PER_CONTAINER: u8 = 1;
/// That of the mode in which a pod's containers share one.
pub const PID_PER_POD: u8 = 0;

/// A pod. It goes with its node.
#[derive(Debug)]
pub struct Pod<'a> {
    node: &'a Machine,
    /// Its id.
    pub id: String,
    name: String,
    namespaces: Value,
}

impl Machine {
    /// Runs a pod under a runtime handler, with a pid namespace for each container.
    pub fn pod(&self, handler: &str, name: &str) -> Pod<'_> {
        self.pod_with(handler, name, PID_PER_CONTAINER)
    }

    /// Runs a pod under a runtime handler.
    pub fn pod_with(&self, handler: &str, name: &str, pids: u8) -> Pod<'_> {
        self.pod_in(handler, name, json!({ "pid": pids }))
    }

    /// Runs a pod with a user namespace of its own, whose ids are those of the node from a number on.
    pub fn pod_of_users(&self, handler: &str, name: &str, from: u32) -> Pod<'_> {
        let ids = json!([{ "container_id": 0, "host_id": from, "length": 65536 }]);
        let users = json!({ "mode": 0, "uids": ids, "gids": ids });
        self.pod_in(handler, name, json!({ "pid": PID_PER_CONTAINER, "userns_options": users }))
    }

    /// Runs a pod under a runtime handler, with namespaces in CRI's words.
    ///
    /// # Panics
    /// When it does not start.
    fn pod_in(&self, handler: &str, name: &str, namespaces: Value) -> Pod<'_> {
        let config = json!({
            "metadata": { "name": name, "namespace": "default", "uid": name, "attempt": 0 },
            "log_directory": format!("/var/log/pods/{name}"),
            // Kubernetes has a cgroup for each pod.
            "linux": {
                "cgroup_parent": format!("/pods/{name}"),
                "security_context": { "namespace_options": namespaces },
            },
        });
        self.write(&config_file(name), config.to_string());
        self.ok(&["mkdir", "-p", &format!("/var/log/pods/{name}")]);
        // containerd says that it is ready before its CRI is.
        let id = until("the CRI runs pods", || {
            let done = self.attempt(&["crictl", "runp", "--runtime", handler, &config_file(name)]);
            let early = done.stderr.contains("is not initialized") || done.stderr.contains("not ready");
            assert!(done.status.success() || early, "{}", self.tell(&["crictl", "runp"], &done));
            done.status.success().then(|| done.stdout.trim().to_owned())
        });
        Pod { node: self, id, name: name.to_owned(), namespaces }
    }
}

fn config_file(name: &str) -> String {
    format!("/tmp/pods/{name}.json")
}

impl Pod<'_> {
    /// Creates a container from an image, and does not start it; its id.
    pub fn create(&self, name: &str, image: &str, command: &[&str]) -> String {
        self.create_with(name, image, command, &json!({}))
    }

    /// Creates a container whose configuration has these members too.
    pub fn create_with(&self, name: &str, image: &str, command: &[&str], more: &Value) -> String {
        let mut config = json!({
            "metadata": { "name": name },
            "image": { "image": image },
            "command": command,
            "log_path": format!("{name}.log"),
            "linux": { "security_context": { "namespace_options": self.namespaces } },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let file = format!("/tmp/pods/{}-{name}.json", self.name);
        self.node.write(&file, config.to_string());
        let said = self.node.ok(&["crictl", "create", &self.id, &file, &config_file(&self.name)]);
        said.trim().to_owned()
    }

    /// Creates and starts a container of the image that every node has; its id.
    pub fn run(&self, name: &str, command: &[&str]) -> String {
        let id = self.create(name, IMAGE, command);
        self.start(&id);
        id
    }

    /// Starts a container.
    pub fn start(&self, id: &str) {
        self.node.ok(&["crictl", "start", id]);
    }

    /// Runs the job that counts on a card that these members of its configuration ask for; its id.
    pub fn run_gpu_job(&self, name: &str, more: &Value) -> String {
        let id = self.create_with(name, IMAGE, &[], more);
        self.start(&id);
        self.wait_for_step(&id, 1);
        id
    }

    /// Runs the job that counts, without a card, and waits until it does; its id.
    pub fn run_job(&self, name: &str) -> String {
        let id = self.run(name, &["/counter", "--cpu"]);
        self.wait_for_step(&id, 1);
        id
    }

    /// The job's status in a container, once it has done that many steps.
    pub fn wait_for_step(&self, id: &str, step: u64) -> Status {
        let status = self.ask(id, &["/counter", "wait", &step.to_string()]);
        assert!(status.step >= step, "it answered at step {}", status.step);
        status
    }

    /// The job's status in a container.
    pub fn status(&self, id: &str) -> Status {
        self.ask(id, &["/counter", "status"])
    }

    fn ask(&self, id: &str, question: &[&str]) -> Status {
        let command = [&["crictl", "exec", "--sync", id], question].concat();
        until(&format!("{id} answers"), || {
            let done = self.node.attempt(&command);
            assert!(!done.stderr.contains("CONTAINER_EXITED"), "{id} has ended: {}", self.last_words(id));
            (done.status.success() && !done.stdout.is_empty()).then(|| Status::checked(&done.stdout))
        })
    }

    /// What a container that has ended left behind.
    fn last_words(&self, id: &str) -> String {
        let logs = self.node.attempt(&["crictl", "logs", id]);
        format!("{}\n{}{}", self.inspect(id)["status"], logs.stdout, logs.stderr)
    }

    /// What `crictl inspect` says of a container.
    pub fn inspect(&self, id: &str) -> Value {
        let text = self.node.ok(&["crictl", "inspect", "--output", "json", id]);
        serde_json::from_str(&text).unwrap_or_else(|err| panic!("{err} in {text}"))
    }

    /// State of a container in the CRI's words, `CONTAINER_RUNNING`, and its exit status.
    pub fn state(&self, id: &str) -> (String, i64) {
        let status = &self.inspect(id)["status"];
        let state = status["state"].as_str().unwrap_or_default().to_owned();
        (state, status["exitCode"].as_i64().unwrap_or(0))
    }

    /// Waits until a container has ended; its exit status.
    pub fn end_of(&self, id: &str) -> i64 {
        until(&format!("{id} ends"), || {
            let (state, code) = self.state(id);
            (state == "CONTAINER_EXITED").then_some(code)
        })
    }

    /// Its address on its node.
    ///
    /// # Panics
    /// When it has none.
    pub fn address(&self) -> String {
        let text = self.node.ok(&["crictl", "inspectp", "--output", "json", &self.id]);
        let said: Value = serde_json::from_str(&text).unwrap_or_else(|err| panic!("{err} in {text}"));
        let address = said["status"]["network"]["ip"].as_str().filter(|address| !address.is_empty());
        address.unwrap_or_else(|| panic!("no address in {text}")).to_owned()
    }

    /// Stops and removes the pod with all that is in it.
    pub fn remove(self) {
        self.node.ok(&["crictl", "stopp", &self.id]);
        self.node.ok(&["crictl", "rmp", &self.id]);
    }
}
