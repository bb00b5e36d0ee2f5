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

/// A driver root with these cards, and what plays them once it is started.
struct Machine {
    folder: tempfile::TempDir,
    built: std::path::PathBuf,
    hardware: Option<Killed>,
}

impl Machine {
    fn with(cards: &str) -> Machine {
        let machine = Machine { folder: tempfile::tempdir().expect("folder"), built: built(), hardware: None };
        let mut install = machine.card("install");
        install.args(["--cards", cards, "--seed", "test"]);
        assert!(install.arg("--libs").arg(&machine.built).status().expect("install").success());
        machine
    }

    fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("root")
    }

    fn card(&self, verb: &str) -> Command {
        let mut card = Command::new(self.built.join("baton-sim-card"));
        card.arg(verb).arg("--root").arg(self.root());
        card
    }

    fn serve(&mut self) {
        let serve = self.card("serve").stdout(Stdio::piped()).spawn().expect("serve");
        let hardware = self.hardware.insert(Killed(serve));
        BufReader::new(hardware.0.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    }

    fn order(&self, order: &str) {
        assert!(self.card("order").arg(order).status().expect("order").success());
    }

    fn open(&self) -> Result<Nvml, NvmlError> {
        let library = self.root().join("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1");
        Nvml::builder().lib_path(library.as_os_str()).init()
    }
}

#[test]
fn the_client_reads_what_was_installed() {
    let mut machine = Machine::with("h100,a100-40");
    assert!(matches!(machine.open(), Err(NvmlError::DriverNotLoaded)), "no hardware yet");

    machine.serve();
    let nvml = machine.open().expect("init");
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
    let information =
        machine.root().join(format!("proc/driver/nvidia/gpus/{}/information", bus_id[4..].to_lowercase()));
    assert!(std::fs::read_to_string(information).expect("information").contains(&uuid));

    // A card whose node is gone is not seen by those who start afterwards.
    drop(nvml);
    std::fs::remove_file(machine.root().join("dev/nvidia0")).expect("remove");
    let nvml = machine.open().expect("init");
    assert_eq!(nvml.device_count().expect("count"), 1);
    assert_eq!(nvml.device_by_index(0).expect("left").uuid().expect("UUID"), uuid);
}

#[test]
fn a_call_goes_wrong_as_often_as_it_was_ordered_to() {
    let mut machine = Machine::with("h100");
    machine.serve();
    let nvml = machine.open().expect("init");
    let device = nvml.device_by_index(0).expect("the card");
    machine.order("fault=nvmlDeviceGetMemoryInfo_v2@somebody-else:error-15*all");
    machine.order("fault=nvmlDeviceGetName:error-15*2");
    for _ in 0..2 {
        assert!(matches!(device.name(), Err(NvmlError::GpuLost)));
    }
    assert!(device.name().is_ok() && device.memory_info().is_ok());
    machine.order("fault=nvmlDeviceGetName:delay-300");
    let begun = std::time::Instant::now();
    assert!(device.name().is_ok() && begun.elapsed().as_millis() >= 300);
    machine.order("fault=nvmlInit_v2:error-18");
    assert!(matches!(machine.open(), Err(NvmlError::LibRmVersionMismatch)));
    drop(machine.open().expect("once is enough"));

    // The books of a card whose hardware is gone cannot be read, whatever was ordered.
    machine.order("fault=nvmlDeviceGetMemoryInfo_v2:error-15*all");
    machine.hardware = None;
    assert!(matches!(device.memory_info(), Err(NvmlError::DriverNotLoaded)));
}
