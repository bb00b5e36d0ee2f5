//! A pod that asks for a card computes on the card that the device plugin chose, however the plugin says so, and can
//! open no other.

use baton_kubernetes::ClusterOptions;
use baton_kubernetes_tests::bed::Bed;
use baton_kubernetes_tests::pod::Pod;
use baton_nodes::Node;
use baton_tests::job::Status;
use baton_tests::until::until;
use serde_json::{Value, json};

/// Where the plugin's program lies on a node.
const PLUGIN: &str = "/run/baton-node/bin/baton-device-plugin";
/// The ways in which a device plugin says what it gives.
const STRATEGIES: [&str; 4] = ["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"];

/// Has the plugin offer a resource on the node, and waits until the scheduler knows.
fn offer(bed: &Bed, node: &Node, resource: &str, words: &[&str], count: u32) {
    let line = [&[PLUGIN, "--resource", resource], words].concat().join(" ");
    let name = resource.replace('/', "_");
    let script = format!(
        "setsid {line} >/tmp/{name}.log 2>&1 </dev/null & until grep -q ready /tmp/{name}.log; do sleep 0.05; done"
    );
    node.ok(&["timeout", "60", "sh", "-c", &script]).expect("the plugin");
    let path = format!("jsonpath={{.status.allocatable.{}}}={count}", resource.replace('.', "\\."));
    bed.kubectl(&["wait", &format!("--for={path}"), "--timeout=60s", &format!("node/{}", node.name())]);
}

fn job(resource: &str, node: &Node) -> Value {
    json!({
        "nodeName": node.name(),
        "containers": [{
            "command": ["/counter", "--memory", "1M"],
            "resources": { "limits": { resource: 1 } },
        }],
    })
}

/// What the job says of itself.
fn status(pod: &Pod) -> Status {
    let answered = until("it answers", || {
        let said = pod.try_sh("/counter status");
        (said.status.success() && !said.stdout.is_empty()).then_some(said.stdout)
    });
    Status::checked(&answered)
}

/// The devices that the kubelet gave to a pod, by its own record.
fn allocated(pod: &Pod, node: &Node) -> Vec<String> {
    let record = node.ok(&["cat", "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"]).expect("the record");
    let record: Value = serde_json::from_str(&record).expect("the kubelet's record");
    let uid = pod.field(".metadata.uid");
    let entries = record["Data"]["PodDeviceEntries"].as_array().cloned().unwrap_or_default();
    let own = entries.into_iter().find(|entry| entry["PodUID"] == json!(uid)).expect("its devices");
    let ids = own["DeviceIDs"].as_object().into_iter().flat_map(serde_json::Map::values).flat_map(|ids| ids.as_array());
    ids.flatten().filter_map(|id| id.as_str().map(str::to_owned)).collect()
}

/// The numbers of the node's cards, by their UUIDs.
fn minors(node: &Node) -> Vec<(String, u64)> {
    let listed: Value = serde_json::from_str(&node.ok(&["baton", "devices", "--json"]).expect("cards")).expect("JSON");
    let cards = listed["cards"].as_array().cloned().unwrap_or_default();
    let of =
        |card: &Value| (card["uuid"].as_str().unwrap_or_default().to_owned(), card["minor"].as_u64().unwrap_or(99));
    cards.iter().map(of).collect()
}

#[test]
fn a_pod_computes_on_the_card_that_the_plugin_chose_and_can_open_no_other() {
    let bed = Bed::up(ClusterOptions { nodes: 1, ..ClusterOptions::new("cards") }.cards(1, "h100x2"));
    let node = &bed.nodes()[0];
    let minors = minors(node);
    assert_eq!(minors.len(), 2);
    for class in ["baton", "baton-name"] {
        for strategy in STRATEGIES {
            // A resource for each, so that none waits until the kubelet forgets another.
            let resource = format!("nvidia.com/{strategy}-{class}");
            offer(&bed, node, &resource, &["--strategy", strategy], 2);
            let pods = [(); 2].map(|()| Pod::create(&bed, class, job(&resource, node)));
            let mut seen = Vec::new();
            for pod in &pods {
                pod.wait_ready();
                let given = allocated(pod, node);
                assert_eq!(given.len(), 1, "{strategy}: {given:?}");
                let status = status(pod);
                assert_eq!(status.gpu.as_ref(), given.first(), "{strategy}");
                for (uuid, minor) in &minors {
                    // No driver is behind the node: whoever may open it is told that there is no such device.
                    let wanted = if *uuid == given[0] { "ENXIO" } else { "EPERM" };
                    let said = pod.sh(&format!("/counter open 195 {minor}"));
                    assert!(said.contains(wanted), "{strategy}, {class}: {minor} of {minors:?}: {said}");
                }
                seen.extend(given);
            }
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), 2, "{strategy}: each pod has a card of its own");
        }
    }
}

#[test]
fn what_cannot_be_given_is_refused_by_name_in_the_pods_events() {
    let bed = Bed::up(ClusterOptions { nodes: 1, ..ClusterOptions::new("refused") }.cards(1, "h100x1"));
    let node = &bed.nodes()[0];
    let gone = "GPU-00000000-1111-2222-3333-444444444444";
    let instance = "MIG-00000000-1111-2222-3333-444444444444";
    // The two ways in which NVIDIA's plugin names the instances of partitioned cards: as cards, and by their profiles.
    let cases = [
        ("nvidia.com/gone", gone, "envvar", ["DEVICE_UNKNOWN", gone]),
        ("nvidia.com/gone-mounted", gone, "volume-mounts", ["DEVICE_UNKNOWN", gone]),
        ("nvidia.com/gpu", instance, "envvar", ["REQUEST_SYNTAX", instance]),
        ("nvidia.com/mig-1g.10gb", instance, "volume-mounts", ["REQUEST_SYNTAX", instance]),
    ];
    for (resource, id, strategy, words) in cases {
        offer(&bed, node, resource, &["--strategy", strategy, "--ids", id], 1);
        let pod = Pod::create(&bed, "baton", job(resource, node));
        let told = until("it is refused", || {
            let events = pod.events();
            events.lines().find(|line| line.contains(words[0])).map(str::to_owned)
        });
        assert!(told.contains(words[1]), "{told}");
        assert!(told.contains("; "), "it says what to do: {told}");
    }
}
