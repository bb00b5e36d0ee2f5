//! A pod's security context holds, and a pod that may do more than others can.

use baton_kubernetes_tests::CLASSES;
use baton_kubernetes_tests::bed::Bed;
use baton_kubernetes_tests::pod::{Pod, shell};
use baton_tests::until::until;
use serde_json::json;

#[test]
fn a_restricted_container_can_do_what_it_is_left_and_nothing_else() {
    let bed = Bed::shared();
    let mut container = shell("exec sleep 1000");
    container["securityContext"] = json!({
        "runAsUser": 1234, "runAsGroup": 1001, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] }, "seccompProfile": { "type": "RuntimeDefault" }
    });
    container["volumeMounts"] = json!([{ "name": "scratch", "mountPath": "/scratch" }]);
    let spec = json!({
        "securityContext": { "fsGroup": 2002, "supplementalGroups": [3003] },
        "volumes": [{ "name": "scratch", "emptyDir": {} }],
        "containers": [container],
    });
    let pods = CLASSES.map(|class| Pod::create(&bed, class, spec.clone()));
    for pod in &pods {
        pod.wait_ready();
        assert_eq!(pod.sh("id -u; id -g; id -G").trim(), "1234\n1001\n1001 2002 3003", "{}", pod.name);
        assert_eq!(pod.sh("echo x >/scratch/file; stat -c %g /scratch/file"), "2002\n");
        let denied = pod.try_sh("echo x >/file");
        assert!(!denied.status.success() && denied.stderr.contains("Read-only file system"), "{}", denied.stderr);
        let status = pod.sh("grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/1/status");
        let values: Vec<_> = status.split_whitespace().skip(1).step_by(2).collect();
        // CAP_NET_BIND_SERVICE is number 10.
        assert_eq!(values, ["0000000000000400", "1", "2"], "{}: {status}", pod.name);
    }
}

#[test]
fn a_privileged_pod_on_its_nodes_namespaces_sees_its_node() {
    let bed = Bed::shared();
    let mut container = shell("exec sleep 1000");
    container["securityContext"] = json!({ "privileged": true });
    let spec = json!({ "hostNetwork": true, "hostPID": true, "hostIPC": true, "containers": [container] });
    let pods = CLASSES.map(|class| Pod::create(&bed, class, spec.clone()));
    for pod in &pods {
        pod.wait_ready();
        let node = pod.node();
        let link = |kind: &str| node.ok(&["readlink", &format!("/proc/1/ns/{kind}")]).expect("a namespace");
        for kind in ["net", "pid", "ipc"] {
            assert_eq!(pod.sh(&format!("readlink /proc/self/ns/{kind}")), link(kind), "{} {kind}", pod.name);
        }
        assert_eq!(
            pod.sh("grep -c . /proc/1/cgroup >/dev/null; mknod /tmp/null c 1 3 && echo x >/tmp/null && echo made"),
            "made\n"
        );
    }
}

#[test]
fn a_pod_may_share_one_process_namespace() {
    let bed = Bed::shared();
    let spec = json!({
        "shareProcessNamespace": true,
        "containers": [shell("exec sleep 1111"), shell("exec sleep 2222")],
    });
    let pods = CLASSES.map(|class| Pod::create(&bed, class, spec.clone()));
    for pod in &pods {
        pod.wait_ready();
        let seen = pod.sh("ps");
        for command in ["/pause", "sleep 1111", "sleep 2222"] {
            assert!(seen.contains(command), "{}: {seen}", pod.name);
        }
    }
}

#[test]
fn a_pod_with_users_of_its_own_is_root_inside_and_nobody_outside() {
    let bed = Bed::shared();
    let spec = json!({ "hostUsers": false, "containers": [shell("exec sleep 1000")] });
    let pods = ["baton", "runc"].map(|class| Pod::create(&bed, class, spec.clone()));
    pods.iter().for_each(root_inside_and_nobody_outside);
    let pod = Pod::create(&bed, "baton-name", spec);
    // Before 2.4 containerd asks only what is called io.containerd.runc.v2 whether it can do this.
    let version = pod.node_version();
    if version.starts_with("containerd://2.4") {
        return root_inside_and_nobody_outside(&pod);
    }
    until("it is refused", || pod.events().contains("does not support user namespaces").then_some(()));
}

fn root_inside_and_nobody_outside(pod: &Pod) {
    pod.wait_ready();
    assert_eq!(pod.sh("id -u"), "0\n");
    let inside = pod.sh("cat /proc/self/uid_map");
    let outside: u32 = inside.split_whitespace().nth(1).and_then(|id| id.parse().ok()).expect("a map");
    assert!(outside >= 65536, "{}: {inside}", pod.name);
    let inspect = ["crictl", "inspect", "-o", "go-template", "--template", "{{.info.pid}}", &pod.container_id()];
    let pid = pod.node().ok(&inspect).expect("its process");
    let owner = pod.node().ok(&["stat", "-c", "%u", &format!("/proc/{}", pid.trim())]);
    assert_eq!(owner.map(|owner| owner.trim().to_owned()), Ok(outside.to_string()), "{}", pod.name);
}
