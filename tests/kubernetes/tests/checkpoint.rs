//! The kubelet's checkpoint API: an archive that others read, of a container that runs on.

use baton_kubernetes_tests::CLASSES;
use baton_kubernetes_tests::bed::Bed;
use baton_kubernetes_tests::pod::Pod;
use baton_tests::until::until;
use serde_json::Value;

#[test]
fn a_container_is_checkpointed_by_the_kubelet_and_runs_on() {
    let bed = Bed::shared();
    let script = "while :; do n=$((n + 1)); echo $n >/tmp/new; busybox mv /tmp/new /tmp/count; sleep 0.05; done";
    let pods = CLASSES.map(|class| Pod::shell(&bed, class, script));
    for pod in &pods {
        pod.wait_ready();
        let node = pod.node();
        let count = || pod.sh("cat /tmp/count").trim().parse::<u64>().unwrap_or(0);
        until("it counts", || (count() > 2).then_some(()));
        // What the kubelet serves at /checkpoint, by way of the API server.
        let path = format!("/api/v1/nodes/{}/proxy/checkpoint/default/{}/c0", node.name(), pod.name);
        let answer = bed.kubectl(&["create", "--raw", &path, "-f", "/dev/null"]);
        let before = count();
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|err| panic!("{err}: {answer}"));
        let archive = answer["items"][0].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        assert!(archive.starts_with("/var/lib/kubelet/checkpoints/checkpoint-"), "{archive}");
        let shown = node.ok(&["checkpointctl", "show", &archive]).expect("checkpointctl reads it");
        assert!(shown.contains("c0") && shown.contains("localhost/baton/counter:1"), "{shown}");
        let inspected = node.ok(&["checkpointctl", "inspect", "--ps-tree", &archive]).expect("checkpointctl reads it");
        assert!(inspected.contains("sh"), "{inspected}");
        until("it goes on", || (count() > before).then_some(()));
        assert_eq!(pod.field(".status.containerStatuses[0].restartCount"), "0");
    }
}
