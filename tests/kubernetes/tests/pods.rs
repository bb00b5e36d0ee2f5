//! Pods under Baton are pods: containers of every kind, and all that `kubectl` does with them.

use std::io::{BufRead, BufReader, Write};

use baton_kubernetes_tests::CLASSES;
use baton_kubernetes_tests::bed::Bed;
use baton_kubernetes_tests::pod::{Pod, shell};
use baton_tests::terminal::Terminal;
use baton_tests::until::until_equal;
use serde_json::json;

#[test]
fn init_containers_run_in_order_a_sidecar_beside_and_containers_share_what_a_pod_shares() {
    let bed = Bed::shared();
    let step = |name: &str, script: &str| {
        let mounts = [json!({ "name": "shared", "mountPath": "/shared" })];
        json!({ "name": name, "command": ["sh", "-c", format!("echo {name} >>/shared/order; {script}")], "volumeMounts": mounts })
    };
    let mut sidecar = step("sidecar", "exec busybox httpd -f -p 127.0.0.1:8080 -h /shared");
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        "volumes": [{ "name": "shared", "emptyDir": {} }],
        "initContainers": [step("first", ""), step("second", ""), sidecar],
        "containers": [step("main", "exec sleep 1000"), step("other", "exec sleep 1000")],
    });
    let pods = CLASSES.map(|class| Pod::create(&bed, class, spec.clone()));
    for pod in &pods {
        pod.wait_ready();
        // The network is the pod's: a server of the sidecar's, bound to the loopback interface, answers another container.
        let order = pod.sh("busybox wget -q -O - http://127.0.0.1:8080/order");
        let order: Vec<_> = order.lines().collect();
        assert_eq!(order[..3], ["first", "second", "sidecar"]);
        assert_eq!(order[3..].iter().filter(|name| ["main", "other"].contains(name)).count(), 2);
        assert_eq!(pod.field(".status.initContainerStatuses[*].ready"), "true true true");
        assert_eq!(pod.sh("busybox hostname").trim(), pod.name);
    }
}

#[test]
fn logs_exec_attach_copy_and_port_forward_reach_the_container() {
    let bed = Bed::shared();
    let script = "echo to stdout; echo to stderr >&2; echo page >/tmp/index.html
        busybox httpd -p 8080 -h /tmp
        while read -r line; do echo \"heard $line\"; done; exec sleep 1000";
    let mut container = shell(script);
    container["stdin"] = json!(true);
    let pods = CLASSES.map(|class| Pod::create(&bed, class, json!({ "containers": [container.clone()] })));
    for pod in &pods {
        pod.wait_ready();
        let mut logged: Vec<_> = pod.logs(&[]).lines().map(str::to_owned).collect();
        logged.sort();
        assert_eq!(logged, ["to stderr", "to stdout"]);

        let failed = pod.try_sh("echo said; echo wrong >&2; exit 7");
        assert_eq!((failed.stdout.as_str(), failed.status.code()), ("said\n", Some(7)));
        assert!(failed.stderr.contains("wrong"), "{}", failed.stderr);
        let line =
            bed.cluster().kubectl(&["exec", "-it", &pod.name, "--", "sh", "-c", "tty; read -r line; echo got $line"]);
        let mut terminal = Terminal::run(line, 24, 80);
        terminal.shows("/dev/pts/");
        terminal.type_in("this\n");
        terminal.shows("got this");
        assert_eq!(terminal.end(), Some(0));

        let mut attached = pod.speaking(&["attach", "-i", &pod.name]).spawn().expect("kubectl attach");
        // Held until it is heard: kubectl may end with its input.
        let mut input = attached.stdin.take().expect("its input");
        input.write_all(b"this\n").expect("written");
        let mut heard = String::new();
        let mut output = BufReader::new(attached.stdout.take().expect("its output"));
        while !heard.contains("heard this") {
            assert!(output.read_line(&mut heard).expect("a line") > 0, "{heard}");
        }
        drop(input);
        let _ = attached.kill();
        let _ = attached.wait();

        let node = &bed.nodes()[0];
        node.ok(&["sh", "-c", "echo copied >/tmp/from"]).expect("a file");
        bed.kubectl(&["cp", "/tmp/from", &format!("{}:/tmp/to", pod.name)]);
        assert_eq!(pod.sh("cat /tmp/to"), "copied\n");
        bed.kubectl(&["cp", &format!("{}:/tmp/to", pod.name), &format!("/tmp/back-{}", pod.name)]);
        assert_eq!(node.ok(&["cat", &format!("/tmp/back-{}", pod.name)]), Ok("copied\n".to_owned()));

        let mut forward = pod.speaking(&["port-forward", &pod.name, ":8080"]).spawn().expect("kubectl port-forward");
        let mut told = String::new();
        // Held to the end: it would end at the next word that nobody reads.
        let mut output = BufReader::new(forward.stdout.take().expect("its output"));
        output.read_line(&mut told).expect("a line");
        let port = told.split(" -> ").next().and_then(|left| left.rsplit(':').next()).expect("the port it chose");
        let ask =
            format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /index.html HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
        let page = node.ok(&["timeout", "30", "bash", "-c", &ask]).expect("an answer");
        assert!(page.starts_with("HTTP/1.1 200 OK") && page.ends_with("\r\n\r\npage\n"), "{told}: {page}");
        let _ = forward.kill();
        let _ = forward.wait();
    }
}

#[test]
fn an_ephemeral_container_sees_the_processes_of_its_target() {
    let bed = Bed::shared();
    let pods = CLASSES.map(|class| Pod::shell(&bed, class, "exec sleep 1000"));
    for pod in &pods {
        pod.wait_ready();
        bed.kubectl(&[
            "debug",
            &pod.name,
            "--image",
            "localhost/baton/counter:1",
            "--target",
            "c0",
            "-c",
            "debugger",
            "--profile",
            "general",
            "--",
            "sh",
            "-c",
            "ps; exec sleep 1000",
        ]);
        pod.wait("jsonpath={.status.ephemeralContainerStatuses[0].state.running}");
        until_equal("it sees its target", &true, || pod.logs(&["-c", "debugger"]).contains("1 root     sleep 1000"));
    }
}

#[test]
fn what_the_kubelet_tells_of_a_pod_is_what_it_uses() {
    let bed = Bed::shared();
    let mut container = shell("busybox dd if=/dev/zero of=/tmp/file bs=1M count=20 2>/dev/null; exec sleep 1000");
    container["resources"] = json!({
        "requests": { "cpu": "50m", "memory": "40Mi" }, "limits": { "cpu": "500m", "memory": "120Mi" }
    });
    let pods = CLASSES.map(|class| Pod::create(&bed, class, json!({ "containers": [container.clone()] })));
    for pod in &pods {
        pod.wait_ready();
        let node = pod.node();
        // The limits are the cgroup's, where the kubelet wants it.
        let uid = pod.field(".metadata.uid");
        let group = format!("kubepods/burstable/pod{uid}/{}", pod.container_id());
        let read = |file: &str| node.ok(&["sh", "-c", &format!("cat /sys/fs/cgroup/{file}")]).expect("its cgroup");
        if node.root_path("/sys/fs/cgroup/memory").exists() {
            assert_eq!(read(&format!("memory/{group}/memory.limit_in_bytes")).trim(), "125829120");
            assert_eq!(read(&format!("cpu/{group}/cpu.cfs_quota_us")).trim(), "50000");
        } else {
            assert_eq!(read(&format!("{group}/memory.max")).trim(), "125829120");
        }
        let path = format!("/api/v1/nodes/{}/proxy/stats/summary", node.name());
        let memory = || {
            let summary: serde_json::Value = serde_json::from_str(&bed.raw(&path)).expect("a summary");
            let pods = summary["pods"].as_array().cloned().unwrap_or_default();
            let own = pods.into_iter().find(|told| told["podRef"]["name"] == json!(pod.name));
            own.is_some_and(|told| {
                let container = &told["containers"][0];
                container["memory"]["usageBytes"].as_u64().is_some_and(|bytes| bytes > 20 << 20)
                    && container["cpu"]["usageCoreNanoSeconds"].as_u64().is_some_and(|time| time > 0)
            })
        };
        until_equal("the summary has it", &true, memory);
        // Where the numbers of `kubectl top` come from.
        let metrics = bed.raw(&format!("/api/v1/nodes/{}/proxy/metrics/resource", node.name()));
        let line = |name: &str| metrics.lines().any(|line| line.starts_with(name) && line.contains(&pod.name));
        for name in [
            "container_memory_working_set_bytes{",
            "container_cpu_usage_seconds_total{",
            "pod_memory_working_set_bytes{",
        ] {
            assert!(line(name), "{name} of {} in {metrics}", pod.name);
        }
    }
}
