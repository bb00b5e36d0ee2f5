//! A pod in a test.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use baton_nodes::{Node, Output};
use serde_json::{Value, json};

use crate::IMAGE;
use crate::bed::Bed;

/// Longest wait for a pod to become something; a second is usual, the rest is for a busy machine.
const PATIENCE: &str = "--timeout=90s";

/// It is deleted, without patience, when dropped.
#[derive(Debug)]
pub struct Pod<'a> {
    bed: &'a Bed,
    /// Its name.
    pub name: String,
}

impl<'a> Pod<'a> {
    /// Creates a pod under a runtime class. Its containers have the test image and end soon when they are told to,
    /// unless `spec` says otherwise.
    ///
    /// # Panics
    /// When the API refuses it.
    pub fn create(bed: &'a Bed, class: &str, spec: Value) -> Pod<'a> {
        Pod::annotated(bed, class, json!({}), spec)
    }

    /// The same with annotations.
    ///
    /// # Panics
    /// When the API refuses it.
    pub fn annotated(bed: &'a Bed, class: &str, annotations: Value, mut spec: Value) -> Pod<'a> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("{class}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let fill = |spec: &mut Value, field: &str, value: Value| {
            if spec.get(field).is_none() {
                spec[field] = value;
            }
        };
        fill(&mut spec, "runtimeClassName", json!(class));
        fill(&mut spec, "terminationGracePeriodSeconds", json!(1));
        for list in ["initContainers", "containers"] {
            for (number, container) in spec[list].as_array_mut().into_iter().flatten().enumerate() {
                fill(container, "name", json!(format!("c{number}")));
                fill(container, "image", json!(IMAGE));
            }
        }
        if spec["initContainers"].is_null() {
            spec.as_object_mut().expect("a spec").remove("initContainers");
        }
        let metadata = json!({ "name": name, "annotations": annotations, "labels": { "app": name } });
        let manifest = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
        bed.apply(&manifest.to_string()).unwrap_or_else(|fault| panic!("{fault}"));
        Pod { bed, name }
    }

    /// One container that runs a script of the shell.
    ///
    /// # Panics
    /// When the API refuses it.
    pub fn shell(bed: &'a Bed, class: &str, script: &str) -> Pod<'a> {
        Pod::create(bed, class, json!({ "containers": [shell(script)] }))
    }

    /// Waits until it is ready.
    ///
    /// # Panics
    /// With its state and events when it never is.
    pub fn wait_ready(&self) {
        self.wait("condition=Ready");
    }

    /// Waits until it is as `kubectl wait --for` understands it.
    ///
    /// # Panics
    /// With its state and events when it never is.
    pub fn wait(&self, condition: &str) {
        let wanted = format!("--for={condition}");
        let done = self.bed.run(&["wait", &wanted, PATIENCE, &self.object()]).expect("run kubectl");
        assert!(done.status.success(), "{} for {condition}: {}\n{}", self.name, done.stderr, self.describe());
    }

    /// Waits until a field of it (`.status.phase`) has that value.
    ///
    /// # Panics
    /// With its state and events when it never has.
    pub fn wait_field(&self, field: &str, value: &str) {
        self.wait(&format!("jsonpath={{{field}}}={value}"));
    }

    /// The value of a field of it (`.status.phase`), as text.
    ///
    /// # Panics
    /// When there is no such pod.
    pub fn field(&self, field: &str) -> String {
        self.bed.kubectl(&["get", &self.object(), "-o", &format!("jsonpath={{{field}}}")])
    }

    /// What its only container was ended by: exit code and reason.
    ///
    /// # Panics
    /// When there is no such pod.
    pub fn ended(&self) -> (String, String) {
        let state = ".status.containerStatuses[0].state.terminated";
        (self.field(&format!("{state}.exitCode")), self.field(&format!("{state}.reason")))
    }

    /// Waits until it has ended, in that phase.
    ///
    /// # Panics
    /// With its state and events when it never has.
    pub fn wait_phase(&self, phase: &str) {
        self.wait_field(".status.phase", phase);
    }

    /// What its container has printed.
    ///
    /// # Panics
    /// When there is no log.
    pub fn logs(&self, words: &[&str]) -> String {
        self.bed.kubectl(&[&["logs", &self.name], words].concat())
    }

    /// Runs a script in its first container, which must succeed.
    ///
    /// # Panics
    /// With what it said when it does not.
    pub fn sh(&self, script: &str) -> String {
        self.bed.kubectl(&["exec", &self.name, "--", "sh", "-c", script])
    }

    /// Runs a script in its first container to its end.
    ///
    /// # Panics
    /// When `kubectl` cannot be run.
    pub fn try_sh(&self, script: &str) -> Output {
        self.bed.run(&["exec", &self.name, "--", "sh", "-c", script]).expect("run kubectl")
    }

    /// A call of `kubectl` that talks to it by pipes.
    pub fn speaking(&self, words: &[&str]) -> Command {
        let mut command = self.bed.cluster().kubectl(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Deletes it and waits until it is gone.
    ///
    /// # Panics
    /// When it stays.
    pub fn delete(&self) {
        self.bed.kubectl(&["delete", &self.object(), PATIENCE]);
    }

    /// The messages of its events, in their order.
    ///
    /// # Panics
    /// When `kubectl` fails.
    pub fn events(&self) -> String {
        let of = format!("involvedObject.name={}", self.name);
        let form = "jsonpath={range .items[*]}{.reason}: {.message}{\"\\n\"}{end}";
        self.bed.kubectl(&["get", "events", "--field-selector", &of, "-o", form])
    }

    /// The node that it is on.
    ///
    /// # Panics
    /// When it is on none.
    pub fn node(&self) -> &'a Node {
        self.bed.node(&self.field(".spec.nodeName"))
    }

    /// The container runtime of the cluster's nodes and its version, as they tell it (`containerd://2.4.2`).
    ///
    /// # Panics
    /// When there is no such node.
    pub fn node_version(&self) -> String {
        let name = self.bed.nodes()[0].name();
        let path = "jsonpath={.status.nodeInfo.containerRuntimeVersion}";
        self.bed.kubectl(&["get", &format!("node/{name}"), "-o", path])
    }

    /// The id of its first container, as containerd has it.
    ///
    /// # Panics
    /// When there is no such pod.
    pub fn container_id(&self) -> String {
        self.field(".status.containerStatuses[0].containerID").trim_start_matches("containerd://").to_owned()
    }

    /// All that `kubectl` tells of it.
    pub fn describe(&self) -> String {
        let told = self.bed.run(&["describe", &self.object()]);
        told.map_or_else(|fault| fault.to_string(), |told| told.stdout + &told.stderr)
    }

    fn object(&self) -> String {
        format!("pod/{}", self.name)
    }
}

impl Drop for Pod<'_> {
    fn drop(&mut self) {
        let _ = self.bed.run(&["delete", &self.object(), "--ignore-not-found", "--now", "--wait=false"]);
    }
}

/// A container that runs a script of the shell.
pub fn shell(script: &str) -> Value {
    json!({ "command": ["sh", "-c", script] })
}
