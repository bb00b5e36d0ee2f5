//! NVIDIA's own clients run on the simulated driver: its Python bindings of NVML, its container toolkit, its container runtime.

use baton_tests::container_toolkit::{self, NVIDIA_RUNTIME, nodes};
use baton_tests::job::IMAGE;
use baton_tests::machine::{DRIVER_ROOT, Machine};
use baton_tests::programs::built;
use baton_tests::python::{PYTHON, printed};
use baton_tests::until::until;
use serde_json::{Value, json};

const CARDS: &str = include_str!("../python/cards.py");
const CUT: &str = include_str!("../python/cut.py");
const MIG: &str = include_str!("../python/mig.py");
const VISIBLE: &str = include_str!("../python/visible.py");

#[test]
fn nvidia_ml_py_lists_cards_and_who_uses_them() {
    let node = Machine::start("client-cards", "h100,a100-40");
    node.install_python();
    node.run_job("job", &[]);
    let (_, pid) = node.task("job").expect("a task");
    let told = node.python(CARDS, &[]);
    assert_eq!((&told["driver"], &told["cuda"]), (&json!("580.95.05"), &json!(13000)));
    // The bindings are newer than the driver: what its library lacks has come since, and is in the one it was made from.
    let library = std::fs::read(built("libbaton_sim_nvml.so")).expect("the library of the newest driver");
    let unknown = |name: &&Value| {
        let symbol = [name.as_str().expect("a name").as_bytes(), &[0]].concat();
        !library.windows(symbol.len()).any(|bytes| bytes == symbol)
    };
    let missing = told["missing"].as_array().expect("functions that the library lacks");
    assert_eq!(missing.iter().filter(unknown).collect::<Vec<_>>(), Vec::<&Value>::new());
    assert!(missing.contains(&json!("nvmlDeviceGetHostname_v1")), "{missing:?}");
    let known = node.cards();
    for (card, known) in told["cards"].as_array().expect("cards").iter().zip(&known) {
        assert_eq!((&card["uuid"], &card["minor"]), (&json!(known.uuid), &json!(known.minor)));
        assert_eq!((&card["name"], &card["used"]), (&json!(known.model), &json!(known.used)));
        assert!(card["bus"].as_str().is_some_and(|bus| bus.eq_ignore_ascii_case(&known.pci_bus_id)), "{card}");
        assert_eq!((&card["mig"], &card["persistence"], &card["compute"]), (&json!([0, 0]), &json!(1), &json!(0)));
        assert_eq!((&card["virtualization"], &card["ecc"], &card["width"]), (&json!(0), &json!([1, 1]), &json!(16)));
    }
    let [h100, a100] = [&told["cards"][0], &told["cards"][1]];
    assert_eq!((&h100["total"], &a100["total"]), (&json!(81559u64 << 20), &json!(40960u64 << 20)));
    assert_eq!((&h100["watts"], &a100["watts"]), (&json!(700), &json!(400)));
    assert_eq!((&h100["clock"], &a100["clock"]), (&json!(1980), &json!(1410)));
    assert_eq!(h100["processes"], json!([[pid, known[0].used, u32::MAX]]));
    assert_eq!((&a100["processes"], &a100["load"], &h100["load"]), (&json!([]), &json!(0), &json!(100)));
}

#[test]
fn nvidia_ml_py_cuts_a_card_and_makes_it_whole_again() {
    let node = Machine::start("client-mig", "a100-40");
    node.install_python();
    let told = node.python(MIG, &[]);
    // nvidia-smi mig -lgip and -lgipp of an A100 in the MIG user guide: index, name, slices, how many, multiprocessors,
    // MiB, places, how many are left.
    let each: Vec<[u32; 2]> = (0..7).map(|start| [start, 1]).collect();
    let profiles = json!({
        "19": [0, "MIG 1g.5gb", 1, 7, 14, 4864, each, 7],
        "20": [7, "MIG 1g.5gb+me", 1, 1, 14, 4864, each, 1],
        "15": [9, "MIG 1g.10gb", 1, 4, 14, 9856, [[0, 2], [2, 2], [4, 2], [6, 2]], 4],
        "14": [1, "MIG 2g.10gb", 2, 3, 28, 9856, [[0, 2], [2, 2], [4, 2]], 3],
        "9": [2, "MIG 3g.20gb", 3, 2, 42, 19968, [[0, 4], [4, 4]], 2],
        "5": [3, "MIG 4g.20gb", 4, 1, 56, 19968, [[0, 4]], 1],
        "0": [4, "MIG 7g.40gb", 7, 1, 98, 40192, [[0, 8]], 1],
    });
    assert_eq!(told["profiles"], profiles);
    let kinds = json!({
        "0": ["MIG 1c.3g.20gb", 1, 3, 14],
        "1": ["MIG 2c.3g.20gb", 2, 1, 28],
        "2": ["MIG 3g.20gb", 3, 1, 42],
    });
    assert_eq!(told["kinds"], kinds);
    let devices = told["devices"].as_array().expect("MIG devices");
    // Name, numbers, MiB, multiprocessors, slices of both instances, MiB.
    let wanted = [
        json!(["NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", [2, 0], 19968, 14, 3, 1, 19968]),
        json!(["NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb", [2, 1], 19968, 28, 3, 2, 19968]),
        json!(["NVIDIA A100-SXM4-40GB MIG 2g.10gb", [3, 0], 9856, 28, 2, 2, 9856]),
    ];
    for (device, wanted) in devices.iter().zip(&wanted) {
        let facts = device.as_array().expect("facts");
        assert!(facts[0].as_str().is_some_and(|uuid| uuid.starts_with("MIG-") && uuid.len() == 40), "{device}");
        assert_eq!(json!(facts[1..]), *wanted);
    }
    assert_eq!(devices.len(), wanted.len());
}

/// What a script prints in a container of its own.
fn in_python(node: &Machine, options: &[&str], script: &str) -> Value {
    let line = node.run_line(&[&["--rm"], options, &[PYTHON, "python", "python3", "-c", script]].concat());
    printed(&node.ok(&line))
}

#[test]
fn a_container_under_baton_sees_its_card_alone() {
    let node = Machine::start("client-inside", "h100x2");
    node.import_python();
    let cards = node.cards();
    for (index, card) in cards.iter().enumerate() {
        let visible = in_python(&node, &["--env", &format!("NVIDIA_VISIBLE_DEVICES={index}")], VISIBLE);
        assert_eq!(visible, json!([[card.uuid, 81559, []]]));
    }
}

#[test]
fn nvidia_ctk_describes_cards_under_a_driver_root_and_at_the_top() {
    let node = container_toolkit::start("client-ctk", "h100x2");
    let uuids: Vec<String> = node.cards().into_iter().map(|card| card.uuid).collect();
    let mut wanted: Vec<String> =
        ["0", "1", "all", &uuids[0], &uuids[1]].map(|name| format!("nvidia.com/gpu={name}")).to_vec();
    wanted.sort();
    let root = format!("--driver-root={DRIVER_ROOT}");
    for (options, host) in [(&[root.as_str()][..], DRIVER_ROOT), (&[][..], "")] {
        if host.is_empty() {
            node.driver_at_the_top();
        }
        let (spec, mut names) = node.generate_cdi(options);
        names.sort();
        assert_eq!(names, wanted);
        assert_eq!(nodes(&spec, "1"), ["/dev/nvidia1"]);
        assert_eq!(nodes(&spec, &uuids[0]), ["/dev/nvidia0"]);
        let edits = spec["containerEdits"].to_string();
        for mounted in ["libcuda.so.580.95.05", "libnvidia-ml.so.580.95.05"] {
            let path = format!("\"hostPath\":\"{host}/usr/lib/x86_64-linux-gnu/{mounted}\"");
            assert!(edits.contains(&path), "{path} in {edits}");
        }
        assert!(edits.contains("/dev/nvidiactl") && edits.contains("gsp_ga10x.bin"), "{edits}");
    }
}

#[test]
fn nvidia_ctk_describes_mig_devices_and_nvidias_runtime_gives_one_alone() {
    let node = container_toolkit::start("client-ctk-mig", "a100-40").under(&NVIDIA_RUNTIME);
    node.install_python();
    let card = node.card().uuid;
    // As in the MIG user guide: the 3g.20gb becomes GPU instance 2, the 1g.5gb 7.
    let cut = node.python(CUT, &["0", "9", "19"]);
    assert_eq!((&cut[0][1], &cut[1][1]), (&json!(2), &json!(7)));
    let [half, slice] = [&cut[0][0], &cut[1][0]].map(|uuid| uuid.as_str().unwrap_or_default().to_owned());
    let seen = node.python(VISIBLE, &[]);
    assert_eq!(seen, json!([[card, 40960, [[half, 2, 19968, []], [slice, 7, 4864, []]]]]));

    node.driver_at_the_top();
    let (spec, mut names) = node.generate_cdi(&[]);
    names.sort();
    let mut wanted: Vec<String> =
        ["0:0", "0:1", "all", &half, &slice].map(|name| format!("nvidia.com/gpu={name}")).to_vec();
    wanted.sort();
    assert_eq!(names, wanted);
    assert_eq!(nodes(&spec, "0:1"), ["/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67", "/dev/nvidia0"]);
    assert_eq!(nodes(&spec, &half), ["/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22", "/dev/nvidia0"]);

    node.configure_nvidia_runtime("cdi");
    // A job on the smaller one; CUDA finds the one device that it may use by itself.
    node.run_detached(&["--env", "NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0:1"], IMAGE, "job", &[]);
    node.first_status("job");
    node.wait_for_step("job", 100);
    let (_, pid) = node.task("job").expect("a task");
    let table = node.ok(&["nvidia-smi"]);
    assert!(table.contains(&format!("|    0    7    0  {pid:>15}      C   /counter ")), "{table}");
    for (name, seen) in [("0:1", json!([slice, 7, 4864, [512]])), (&half, json!([half, 2, 19968, []]))] {
        let visible = in_python(&node, &["--env", &format!("NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu={name}")], VISIBLE);
        // It may not know how much memory the whole card has (nvidia-container-toolkit#842).
        assert_eq!(visible, json!([[card, "no permission", [seen]]]));
    }
}

#[test]
fn nvidia_smi_tells_of_a_job_on_its_node() {
    let node = Machine::start("client-smi", "h100x2");
    node.run_job("job", &[]);
    let (_, pid) = node.task("job").expect("a task");
    let program = format!("{DRIVER_ROOT}/usr/bin/nvidia-smi");
    let uuids: Vec<String> = node.cards().into_iter().map(|card| card.uuid).collect();
    let list = node.ok(&[&program, "-L"]);
    let line = |index: usize| format!("GPU {index}: NVIDIA H100 80GB HBM3 (UUID: {})\n", uuids[index]);
    assert_eq!(list, format!("{}{}", line(0), line(1)));
    let query = "--query-compute-apps=pid,process_name,used_memory,gpu_uuid";
    let told = node.ok(&[&program, query, "--format=csv,noheader,nounits"]);
    assert_eq!(told, format!("{pid}, /counter, 512, {}\n", uuids[0]));
    let table = node.ok(&[&program]);
    assert!(table.contains(&format!("{pid}      C   /counter ")), "{table}");
    // The card cannot be cut, or reset, while the job runs.
    let mode = node.ok(&[&program, "-i", "0", "-mig", "1"]);
    assert!(mode.starts_with("Warning: MIG mode is in pending enable state"), "{mode}");
    assert_eq!(node.attempt(&[&program, "-i", "0", "-r"]).status.code(), Some(255));
}

#[test]
fn nvidias_runtime_gives_a_container_its_card() {
    let node = container_toolkit::start("client-runtime", "h100x2").under(&NVIDIA_RUNTIME);
    node.driver_at_the_top();
    node.generate_cdi(&[]);
    let cards = node.cards();
    for (mode, asked) in [("cdi", "nvidia.com/gpu=1"), ("jit-cdi", "1")] {
        node.configure_nvidia_runtime(mode);
        node.run_detached(&["--env", &format!("NVIDIA_VISIBLE_DEVICES={asked}")], IMAGE, "job", &[]);
        assert_eq!(node.first_status("job").gpu.as_ref(), Some(&cards[1].uuid), "{mode}");
        node.wait_for_step("job", 100);
        assert_eq!(node.cards()[0].used, 0);
        // Output of what ends at once is now and then lost on the way.
        let list = until("nvidia-smi is heard", || {
            let done = node.in_container("job", &["nvidia-smi", "-L"]);
            assert!(done.status.success(), "{done:?}");
            (!done.stdout.is_empty()).then_some(done.stdout)
        });
        assert_eq!(list, format!("GPU 0: NVIDIA H100 80GB HBM3 (UUID: {})\n", cards[1].uuid));
        let (_, pid) = node.task("job").expect("a task");
        assert_eq!(node.cards()[1].users.iter().map(|user| user.pid).collect::<Vec<_>>(), [pid]);
        node.ok(&["ctr", "task", "rm", "-f", "job"]);
        node.ok(&["ctr", "container", "rm", "job"]);
    }
}
