//! A pod's containers are started, watched, ended and started again as Kubernetes says.

use baton_kubernetes_tests::CLASSES;
use baton_kubernetes_tests::bed::Bed;
use baton_kubernetes_tests::pod::{Pod, shell};
use baton_tests::until::until_equal;
use serde_json::{Value, json};

/// A container whose /node is a folder of its node that outlives it, by the pod's name.
fn with_memory(script: &str) -> Value {
    let mut container = shell(script);
    container["env"] = json!([{ "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }]);
    container["volumeMounts"] = json!([{ "name": "node", "mountPath": "/node", "subPathExpr": "$(POD)" }]);
    container
}

fn remembering(container: Value, grace: u32) -> Value {
    json!({
        "terminationGracePeriodSeconds": grace,
        "volumes": [{ "name": "node", "hostPath": { "path": "/var/lib/memory", "type": "DirectoryOrCreate" } }],
        "containers": [container],
    })
}

#[test]
fn probes_decide_whether_a_container_is_ready_and_whether_it_is_started_again() {
    let bed = Bed::shared();
    let mut container = shell("busybox httpd -p 8080 -h /tmp; touch /tmp/alive; exec sleep 1000");
    let every = |probe: Value| {
        let mut all = json!({ "periodSeconds": 1, "failureThreshold": 1 });
        all.as_object_mut().expect("fields").extend(probe.as_object().cloned().expect("fields"));
        all
    };
    container["startupProbe"] = every(json!({ "tcpSocket": { "port": 8080 }, "failureThreshold": 30 }));
    container["readinessProbe"] = every(json!({ "httpGet": { "path": "/ready", "port": 8080 } }));
    container["livenessProbe"] = every(json!({ "exec": { "command": ["cat", "/tmp/alive"] } }));
    let pods = CLASSES.map(|class| Pod::create(&bed, class, json!({ "containers": [container.clone()] })));
    for pod in &pods {
        pod.wait_field(".status.containerStatuses[0].started", "true");
        assert_eq!(pod.field(".status.containerStatuses[0].ready"), "false");
        pod.sh("echo yes >/tmp/ready");
        pod.wait_ready();
        pod.sh("rm /tmp/alive");
    }
    for pod in &pods {
        pod.wait_field(".status.containerStatuses[0].restartCount", "1");
        assert!(pod.events().contains("Liveness probe failed: cat: can't open '/tmp/alive'"), "{}", pod.events());
    }
}

#[test]
fn hooks_run_and_sigterm_comes_after_them_and_before_the_end() {
    let bed = Bed::shared();
    let script = "trap 'echo term >>/node/said; exit 3' TERM; while :; do sleep 0.1; done";
    let mut container = with_memory(script);
    let say = |word: &str| json!({ "exec": { "command": ["sh", "-c", format!("echo {word} >>/node/said")] } });
    container["lifecycle"] = json!({ "postStart": say("post-start"), "preStop": say("pre-stop") });
    let pods = CLASSES.map(|class| Pod::create(&bed, class, remembering(container.clone(), 30)));
    for pod in &pods {
        pod.wait_ready();
        let node = pod.node();
        // A grace of half a minute, and it is gone as soon as it has ended.
        pod.delete();
        let said = node.ok(&["cat", &format!("/var/lib/memory/{}/said", pod.name)]);
        assert_eq!(said, Ok("post-start\npre-stop\nterm\n".to_owned()), "{}", pod.name);
    }
}

#[test]
fn what_does_not_end_by_itself_is_killed_after_its_grace() {
    let bed = Bed::shared();
    let script = "trap 'echo term >>/node/said' TERM; while :; do sleep 0.1; echo on >>/node/alive; done";
    let pods = CLASSES.map(|class| Pod::create(&bed, class, remembering(with_memory(script), 2)));
    for pod in &pods {
        pod.wait_ready();
        let node = pod.node();
        let id = pod.container_id();
        pod.delete();
        let said = node.ok(&["cat", &format!("/var/lib/memory/{}/said", pod.name)]);
        assert_eq!(said, Ok("term\n".to_owned()), "{}", pod.name);
        let left = node.ok(&["ctr", "-n", "k8s.io", "task", "ls", "-q"]).expect("tasks");
        assert!(!left.contains(&id), "{left}");
    }
}

#[test]
fn containers_are_started_again_as_their_policy_says() {
    let bed = Bed::shared();
    let cases = [
        // Policy, exit code, phase in the end (none: it runs again), restarts.
        ("Always", 0, "", "1"),
        ("Always", 5, "", "1"),
        ("OnFailure", 0, "Succeeded", "0"),
        ("OnFailure", 5, "", "1"),
        ("Never", 0, "Succeeded", "0"),
        ("Never", 5, "Failed", "0"),
    ];
    for class in CLASSES {
        let pods = cases.map(|(policy, code, _, _)| {
            // Only its first run ends.
            let script = format!("[ -e /node/before ] && exec sleep 1000; touch /node/before; exit {code}");
            let mut spec = remembering(with_memory(&script), 1);
            spec["restartPolicy"] = json!(policy);
            Pod::create(&bed, class, spec)
        });
        for (pod, (policy, code, phase, restarts)) in pods.iter().zip(cases) {
            let what = format!("{class} {policy} {code}");
            if phase.is_empty() {
                pod.wait_field(".status.containerStatuses[0].restartCount", restarts);
                pod.wait_ready();
                assert_eq!(
                    pod.field(".status.containerStatuses[0].lastState.terminated.exitCode"),
                    code.to_string(),
                    "{what}"
                );
            } else {
                pod.wait_phase(phase);
                let reason = if code == 0 { "Completed" } else { "Error" };
                assert_eq!(pod.ended(), (code.to_string(), reason.to_owned()), "{what}");
                assert_eq!(pod.field(".status.containerStatuses[0].restartCount"), restarts, "{what}");
            }
        }
    }
}

#[test]
fn what_a_container_says_at_its_end_is_told_with_its_state() {
    let bed = Bed::shared();
    for class in CLASSES {
        let message = |script: &str, policy: &str| {
            let mut container = shell(script);
            container["terminationMessagePolicy"] = json!(policy);
            Pod::create(&bed, class, json!({ "restartPolicy": "Never", "containers": [container] }))
        };
        let written = message("echo from the file >/dev/termination-log; exit 1", "File");
        let logged = message("echo from the log; exit 1", "FallbackToLogsOnError");
        for (pod, wanted) in [(&written, "from the file\n"), (&logged, "from the log\n")] {
            pod.wait_phase("Failed");
            assert_eq!(pod.field(".status.containerStatuses[0].state.terminated.message"), wanted, "{}", pod.name);
        }
    }
}

#[test]
fn a_container_that_uses_too_much_memory_is_reported_as_oomkilled() {
    let bed = Bed::shared();
    let mut container = shell("x=$(busybox tail /dev/zero)");
    container["resources"] = json!({ "limits": { "memory": "24Mi" } });
    let spec = json!({ "restartPolicy": "Never", "containers": [container] });
    let pods = CLASSES.map(|class| Pod::create(&bed, class, spec.clone()));
    for pod in &pods {
        pod.wait_phase("Failed");
        assert_eq!(pod.ended(), ("137".to_owned(), "OOMKilled".to_owned()), "{}", pod.name);
    }
}

#[test]
fn nothing_of_a_pod_is_left_on_its_node() {
    let bed = Bed::shared();
    let pods = CLASSES.map(|class| Pod::shell(&bed, class, "exec sleep 1000"));
    for pod in &pods {
        pod.wait_ready();
        let node = pod.node();
        let (id, uid) = (pod.container_id(), pod.field(".metadata.uid"));
        let sandbox = node.ok(&["crictl", "pods", "-q", "--name", &pod.name]).expect("its sandbox").trim().to_owned();
        assert_eq!(sandbox.lines().count(), 1, "{sandbox}");
        pod.delete();
        // The kubelet takes sandboxes and cgroups away after the pod is gone for the API.
        let traces = || {
            let words = [&*id, &*sandbox, &*uid].join("\\|");
            let script = format!(
                "{{ ps -eo args; mount; find /run /var/lib/containerd /sys/fs/cgroup -type d 2>/dev/null; ip netns list; }} |
                    grep '{words}' | grep -v 'grep ' | head -n 5"
            );
            node.run(&["sh", "-c", &script]).expect("a look").stdout
        };
        until_equal("all is gone", &String::new(), || {
            let _ = node.run(&["crictl", "rmp", "-f", &sandbox]);
            traces()
        });
    }
}
