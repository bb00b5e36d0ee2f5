//! The test bed itself: a cluster is gone without a trace.

use std::fs;
use std::path::Path;

use baton_kubernetes::{Cluster, ClusterOptions};
use baton_kubernetes_tests::bed::Bed;
use baton_kubernetes_tests::pod::{Pod, shell};
use baton_nodes::cell::Cell;
use serde_json::json;

#[test]
fn nothing_of_a_cluster_is_left_and_pods_of_two_nodes_have_met() {
    let name = format!("trace{}", std::process::id());
    let bed = Bed::up(ClusterOptions::new("trace"));
    let [first, second] = bed.nodes() else { panic!("two nodes") };
    let on = |node: &str, script: &str| {
        Pod::create(&bed, "baton", json!({ "nodeName": node, "containers": [shell(script)] }))
    };
    let server = on(first.name(), "echo met >/tmp/index.html; exec busybox httpd -f -p 8080 -h /tmp");
    let client = on(second.name(), "exec sleep 1000");
    server.wait_ready();
    client.wait_ready();
    let url = format!("http://{}:8080/index.html", server.field(".status.podIP"));
    assert_eq!(client.sh(&format!("busybox wget -q -O - {url}")), "met\n");

    let names: Vec<String> = bed.nodes().iter().map(|node| node.name().to_owned()).collect();
    let namespaces: Vec<_> = bed.nodes().iter().map(|node| net_namespace(&node.pid().to_string())).collect();
    let cgroups: Vec<_> = names.iter().flat_map(|name| Cell::load(name).expect("its record").cgroups).collect();
    assert!(namespaces.iter().all(Option::is_some) && cgroups.iter().all(|path| path.exists()));
    drop((server, client));
    drop(bed);
    for name in &names {
        assert!(!Cell::run_dir(name).exists() && !Cell::disk_dir(name).exists(), "{name}");
    }
    assert_eq!(cgroups.iter().find(|path| path.exists()), None);
    let left = fs::read_dir("/proc").expect("/proc").flatten().find(|entry| {
        let namespace = entry.file_name().to_str().and_then(net_namespace);
        namespace.is_some() && namespaces.contains(&namespace)
    });
    assert!(left.is_none(), "{left:?}");
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(&name), "{mounts}");
    assert!(Cluster::running(&name).is_err());
}

fn net_namespace(pid: &str) -> Option<std::path::PathBuf> {
    pid.parse::<u32>().ok()?;
    fs::read_link(Path::new("/proc").join(pid).join("ns/net")).ok()
}
