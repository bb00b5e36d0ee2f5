//! What cannot be done is said where a person looks: in what `kubectl apply` answers, or in one line of the pod's events.

use baton_kubernetes::ClusterOptions;
use baton_kubernetes_tests::bed::Bed;
use baton_kubernetes_tests::pod::{Pod, shell};
use baton_tests::until::until;
use serde_json::{Value, json};

/// A policy that an operator may install, as it lies in `config/`.
const POLICY: &str = include_str!("../../../config/files/policy.yaml");

fn sleeper() -> Value {
    json!({ "containers": [shell("exec sleep 1000")] })
}

/// The first line of the pod's events that has the word.
fn told(pod: &Pod, word: &str) -> String {
    until(word, || pod.events().lines().find(|line| line.contains(word)).map(str::to_owned))
}

#[test]
fn a_wrong_annotation_is_told_with_its_name_its_value_and_what_would_be_right() {
    let bed = Bed::shared();
    let cases = [
        ("io.baton.devices", "gpu0", "REQUEST_SYNTAX", ["io.baton.devices", "gpu0", "ask for `all`"]),
        ("io.baton.devices", "0,,1", "REQUEST_SYNTAX", ["io.baton.devices", "neither the index", "ask for `all`"]),
        ("io.baton.devices", "0", "DRIVER_MISSING", ["libnvidia-ml", "driver", ";"]),
        ("io.baton.colour", "red", "REQUEST_SYNTAX", ["io.baton.colour=red", "does not know it", "leave it out"]),
        (
            "io.baton.restore",
            "always",
            "REQUEST_SYNTAX",
            ["io.baton.restore=always", "does not know it", "leave it out"],
        ),
    ];
    for class in ["baton", "baton-name"] {
        for (name, value, code, words) in cases {
            let pod = Pod::annotated(&bed, class, json!({ name: value }), sleeper());
            let line = told(&pod, code);
            for word in words {
                assert!(line.contains(word), "{word:?} is not in: {line}");
            }
            assert!(pod.describe().contains(code), "a person finds it");
        }
    }
}

#[test]
fn classes_and_handlers_that_lead_nowhere_are_told() {
    let bed = Bed::up(ClusterOptions { nodes: 1, ..ClusterOptions::new("nowhere") });
    let node = &bed.nodes()[0];
    let class = |name: &str, fields: &str| {
        format!("{{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {{name: {name}}}{fields}}}")
    };
    let refused = bed.apply(&class("empty", "")).expect_err("no handler").to_string();
    assert!(refused.contains("handler: Required value"), "{refused}");

    let handlers = "\
version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.misplaced]
runtime_type = 'io.containerd.runc.v2'
runtime_path = '/nowhere/containerd-shim-baton-v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.misnamed]
runtime_type = 'io.containerd.batton.v2'
";
    std::fs::write(node.root_path("/etc/containerd/conf.d/wrong.toml"), handlers).expect("a drop-in");
    let main = || node.ok(&["pgrep", "-x", "containerd"]).unwrap_or_default().trim().to_owned();
    let before = main();
    node.ok(&["kill", &before]).expect("containerd is told to end");
    until("containerd is another", || (!main().is_empty() && main() != before).then_some(()));
    until("containerd answers", || node.ok(&["ctr", "version"]).ok());
    let cases = [
        ("unknown", "unknown"),
        ("misplaced", "/nowhere/containerd-shim-baton-v2"),
        ("misnamed", "containerd-shim-batton-v2"),
    ];
    for (handler, word) in cases {
        bed.apply(&class(handler, &format!(", handler: {handler}"))).expect("a class");
        let pod = Pod::create(&bed, handler, sleeper());
        assert!(told(&pod, "FailedCreatePodSandBox").contains(word), "{}", pod.events());
    }
}

#[test]
fn who_may_ask_for_devices_by_annotation_is_for_a_policy_to_say() {
    let bed = Bed::up(ClusterOptions { nodes: 1, ..ClusterOptions::new("policy") });
    bed.apply(POLICY).expect("the policy");
    let pod = |namespace: &str, annotations: &str| {
        bed.apply(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: asks, namespace: {namespace}, annotations: {{{annotations}}}}},
              spec: {{runtimeClassName: baton, containers: [{{name: c, image: 'localhost/baton/counter:1'}}]}}}}"
        ))
    };
    // The API server takes a moment to hold a new policy.
    let refused = until("the policy holds", || {
        let answer = pod("default", "io.baton.devices: all");
        if answer.is_ok() {
            bed.kubectl(&["delete", "pod", "asks", "--now"]);
        }
        answer.err()
    });
    let refused = refused.to_string();
    for word in ["io.baton.devices", "default", "io.baton/devices=allowed"] {
        assert!(refused.contains(word), "{word} is not in: {refused}");
    }
    let unknown = pod("default", "io.baton.colour: red").expect_err("an unknown annotation").to_string();
    assert!(unknown.contains("io.baton.colour"), "{unknown}");
    pod("default", "io.baton.restore: never, other.example/x: z").expect("what anybody may say");
    bed.kubectl(&["create", "namespace", "trusted"]);
    bed.kubectl(&["label", "namespace", "trusted", "io.baton/devices=allowed"]);
    bed.kubectl(&["wait", "--for=create", "--timeout=60s", "-n", "trusted", "serviceaccount/default"]);
    pod("trusted", "io.baton.devices: all").expect("what a trusted namespace may say");
}
