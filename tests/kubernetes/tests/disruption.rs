//! What happens to the programs under a pod does not happen to the pod.

use baton_kubernetes::ClusterOptions;
use baton_kubernetes_tests::bed::Bed;
use baton_kubernetes_tests::pod::{Pod, shell};
use baton_tests::until::{until, until_equal};
use serde_json::json;

/// A pod on a node, whose container counts.
fn counting<'a>(bed: &'a Bed, class: &str, node: &str) -> Pod<'a> {
    let script = "while :; do n=$((n + 1)); echo $n >/tmp/new; busybox mv /tmp/new /tmp/count; sleep 0.05; done";
    Pod::create(bed, class, json!({ "nodeName": node, "containers": [shell(script)] }))
}

fn count(pod: &Pod) -> u64 {
    until("it has counted", || pod.try_sh("cat /tmp/count").stdout.trim().parse().ok())
}

/// It still counts, from where it was, and was never started again.
fn goes_on(pod: &Pod, from: u64) {
    until("it counts on", || Some(pod.try_sh("cat /tmp/count")).filter(|said| said.status.success()));
    let now = count(pod);
    assert!(now >= from, "{}: {now} after {from}", pod.name);
    until("it goes on", || (count(pod) > now).then_some(()));
    assert_eq!(pod.field(".status.containerStatuses[0].restartCount"), "0", "{}", pod.name);
    assert_eq!(pod.field(".status.phase"), "Running");
}

#[test]
fn pods_run_on_while_containerd_and_the_kubelet_are_killed_and_come_back() {
    let bed = Bed::up(ClusterOptions { nodes: 1, ..ClusterOptions::new("disrupted") });
    let node = &bed.nodes()[0];
    let pods = ["baton", "baton-name"].map(|class| counting(&bed, class, node.name()));
    pods.iter().for_each(Pod::wait_ready);
    for signal in ["TERM", "KILL"] {
        let before: Vec<_> = pods.iter().map(count).collect();
        let main = || node.ok(&["pgrep", "-x", "containerd"]).unwrap_or_default().trim().to_owned();
        let first = main();
        // The node starts it again, as a service manager does.
        node.ok(&["kill", &format!("-{signal}"), &first]).expect("a signal");
        until("containerd is another", || (!main().is_empty() && main() != first).then_some(()));
        until("containerd answers", || node.ok(&["ctr", "version"]).ok());
        pods.iter().zip(&before).for_each(|(pod, from)| goes_on(pod, *from));
    }
    let before: Vec<_> = pods.iter().map(count).collect();
    let kubelet = bed.kubelet(node).expect("the kubelet");
    kubelet.signal(node, "KILL").expect("killed");
    kubelet.start(node).expect("started");
    pods.iter().zip(&before).for_each(|(pod, from)| goes_on(pod, *from));

    // The shim is what holds a pod's containers: when it is killed they end with it, and are started again.
    for pod in &pods {
        let shim = node.ok(&["sh", "-c", &format!("pgrep -f 'containerd-shim-baton-v2.*{}'", sandbox(pod))]);
        let shim = shim.expect("its shim").lines().next().expect("a pid").to_owned();
        node.ok(&["kill", "-KILL", &shim]).expect("killed");
    }
    for pod in &pods {
        pod.wait_field(".status.containerStatuses[0].restartCount", "1");
        pod.wait_ready();
        until_equal("the new one counts", &true, || count(pod) > 0);
    }
    let counting =
        || node.run(&["pgrep", "-c", "-f", "^sh -c while :; do n="]).expect("pgrep").stdout.trim().to_owned();
    until_equal("one counts for each pod, and none of before", &pods.len().to_string(), counting);
}

fn sandbox(pod: &Pod) -> String {
    let id = pod.node().ok(&["crictl", "pods", "-q", "--name", &pod.name]).expect("its sandbox");
    id.lines().next().expect("a sandbox").to_owned()
}

#[test]
fn a_node_that_is_lost_and_comes_back_has_its_pods_still() {
    let bed = Bed::up(ClusterOptions::new("lost"));
    let node = &bed.nodes()[1];
    let pod = counting(&bed, "baton", node.name());
    pod.wait_ready();
    let before = count(&pod);
    let ready = || {
        let conditions = bed.get(&format!("node/{}", node.name()))["status"]["conditions"].clone();
        let ready =
            conditions.as_array().into_iter().flatten().find(|condition| condition["type"] == json!("Ready")).cloned();
        ready.and_then(|ready| ready["status"].as_str().map(str::to_owned)).unwrap_or_default()
    };
    let link = |state: &str| node.ok(&["ip", "link", "set", "eth0", state]).expect("its cable");
    link("down");
    until_equal("the node is lost", &"Unknown".to_owned(), ready);
    assert_eq!(pod.field(".status.conditions[?(@.type==\"Ready\")].status"), "False");
    link("up");
    until_equal("the node is back", &"True".to_owned(), ready);
    pod.wait_ready();
    goes_on(&pod, before);
}
