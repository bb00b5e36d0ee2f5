//! The library as the client that Baton uses, `nvml-wrapper`, sees it. Needs root, to make device nodes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::error::NvmlError;

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds what the test runs, where the test itself was built.
fn built() -> std::path::PathBuf {
    let test = std::env::current_exe().expect("own path");
    let folder = test.parent().and_then(Path::parent).expect("target/PROFILE/deps").to_owned();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--manifest-path"]).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    cargo.args(["-p", "baton-sim-card", "-p", "baton-sim-cuda", "-p", "baton-sim-nvml"]);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.env("CARGO_TARGET_DIR", folder.parent().expect("target")).status().expect("cargo").success());
    folder
}

#[test]
fn the_client_reads_what_was_installed() {
    let folder = tempfile::tempdir().expect("folder");
    let (root, built) = (folder.path().join("root"), built());
    let card = || Command::new(built.join("baton-sim-card"));
    let mut install = card();
    install.args(["install", "--cards", "h100,a100-40", "--seed", "test", "--root"]).arg(&root);
    assert!(install.arg("--libs").arg(&built).status().expect("install").success());
    let library = root.join("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1");
    let open = || Nvml::builder().lib_path(library.as_os_str()).init();
    assert!(matches!(open(), Err(NvmlError::DriverNotLoaded)), "no hardware yet");

    let serve = card().arg("serve").arg("--root").arg(&root).stdout(Stdio::piped()).spawn().expect("serve");
    let mut hardware = Killed(serve);
    BufReader::new(hardware.0.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    let nvml = open().expect("init");
    assert_eq!(nvml.sys_driver_version().expect("driver"), "580.95.05");
    assert_eq!(nvml.sys_cuda_driver_version().expect("CUDA"), 13000);
    assert_eq!(nvml.device_count().expect("count"), 2);

    let device = nvml.device_by_index(1).expect("second card");
    assert_eq!(device.name().expect("name"), "NVIDIA A100-SXM4-40GB");
    assert_eq!(device.minor_number().expect("minor"), 1);
    assert_eq!(device.index().expect("index"), 1);
    let capability = device.cuda_compute_capability().expect("capability");
    assert_eq!((capability.major, capability.minor), (8, 0));
    let memory = device.memory_info().expect("memory");
    assert_eq!(memory.total, 40960 << 20);
    assert_eq!((memory.used, memory.reserved), (0, 551 << 20));
    assert_eq!(memory.free, (40960 - 551) << 20);
    assert_eq!(device.mig_mode().expect("MIG").current, 0);
    assert_eq!(device.compute_mode().expect("mode"), ComputeMode::Default);
    assert!(device.is_in_persistent_mode().expect("persistence"));
    assert!(device.running_compute_processes().expect("processes").is_empty());
    let uuid = device.uuid().expect("UUID");
    assert_eq!(nvml.device_by_uuid(uuid.as_str()).expect("by UUID").index().expect("index"), 1);
    let bus_id = device.pci_info().expect("PCI").bus_id;
    assert_eq!(nvml.device_by_pci_bus_id(bus_id.as_str()).expect("by bus id").index().expect("index"), 1);
    let information = root.join(format!("proc/driver/nvidia/gpus/{}/information", bus_id[4..].to_lowercase()));
    assert!(std::fs::read_to_string(information).expect("information").contains(&uuid));

    // A card whose node is gone is not seen by those who start afterwards.
    drop(nvml);
    std::fs::remove_file(root.join("dev/nvidia0")).expect("remove");
    let nvml = open().expect("init");
    assert_eq!(nvml.device_count().expect("count"), 1);
    assert_eq!(nvml.device_by_index(0).expect("left").uuid().expect("UUID"), uuid);
}
