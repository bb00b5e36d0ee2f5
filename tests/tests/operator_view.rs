//! `baton devices` and `baton inspect` print what a person wants to know (point 7).

use baton_tests::machine::Machine;

#[test]
fn devices_and_inspect_tell_what_a_person_wants_to_know() {
    let a = Machine::start("view-a", "h100x2");
    let cards = a.cards();
    a.run_job("job", &[]);
    let (_, pid) = a.task("job").expect("a task");
    let devices = a.ok(&["baton", "devices"]);
    let wanted = [
        "NVIDIA driver 580.95.05",
        "CUDA 13.0",
        "2 GPU(s)",
        "NVIDIA H100 80GB HBM3",
        "compute 9.0",
        "/dev/nvidia0",
        "/dev/nvidia1",
        &cards[0].uuid,
        &cards[1].uuid,
        &cards[0].pci_bus_id,
        "512.0 MiB of 79.6 GiB used",
        "nobody uses it",
        "/default/job",
    ];
    for told in wanted {
        assert!(devices.contains(told), "{told:?} is not in\n{devices}");
    }
    assert!(devices.contains(&format!("process {pid} ")), "{devices}");

    let reference = &a.reference("1");
    let source = format!("job on node {}", a.name());
    a.ok(&["baton", "save", "job", reference]);
    let known = a.ok(&["baton", "inspect", reference]);
    let (_, digest) = a.image_manifest(reference);
    let wanted = [
        reference,
        &digest,
        &source,
        "localhost/baton/counter:1",
        "NVIDIA H100 80GB HBM3",
        &cards[0].uuid,
        "NVIDIA driver 580.95.05",
        "architecture x86_64",
        "CRIU 4.",
        "1 counter, 512.0 MiB on the GPU",
    ];
    for told in wanted {
        assert!(known.contains(told), "{told:?} is not in\n{known}");
    }
    assert!(!known.contains(&cards[1].uuid), "{known}");
    let text = a.ok(&["baton", "inspect", "--json", reference]);
    let manifest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(manifest["gpus"][0]["uuid"], cards[0].uuid.as_str());
    assert_eq!(manifest["source"]["container"], "job");
}
