//! Lays out a driver root: device nodes, `/proc` texts, libraries and firmware.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use baton_sim_model::{CAPABILITY_MAJOR, capability_table};
use baton_sim_wire::{Card, HARDWARE_FILE};

use crate::account::Account;
use crate::old_driver;
use crate::spec::Hardware;
use crate::state_file::StateFile;
use crate::{capabilities, lock};

/// Where the libraries lie below the root.
pub const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const UVM_MAJOR: u32 = 510;
const CARD_MAJOR: u32 = 195;
/// How long it waits for a process that plays the hardware to end, and how long between two looks.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);
/// Mode of the nodes, as the driver makes them.
const OPEN_TO_ALL: libc::mode_t = 0o666;

/// Writes the root. What is there of an earlier one is replaced.
pub fn install(root: &Path, libs: &Path, hardware: &Hardware) -> io::Result<()> {
    fs::create_dir_all(root)?;
    let mut description = alone(root)?;
    // A root that is half laid out has no hardware.
    description.set_len(0)?;
    nodes(&root.join("dev"), &hardware.cards)?;
    proc_texts(&root.join("proc"), hardware)?;
    libraries(&root.join(LIBRARIES), libs, &hardware.driver)?;
    programs(&root.join("usr/bin"), libs)?;
    firmware(&root.join("lib/firmware/nvidia").join(&hardware.driver))?;
    // Other cards, or the same ones as they come from the factory.
    StateFile::below(root).remove()?;
    let cards: Vec<Account> = hardware.cards.iter().cloned().map(Account::of).collect();
    capabilities::show(root, &cards)?;
    description.write_all(&serde_json::to_vec_pretty(hardware)?)
}

/// The description of the hardware: nobody else lays the root out or plays its hardware while it is held. One that has just been
/// told to end may take a moment.
fn alone(root: &Path) -> io::Result<fs::File> {
    let path = root.join(HARDWARE_FILE);
    let description = fs::File::options().create(true).truncate(false).write(true).open(path)?;
    for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
        if lock::take(&description) {
            return Ok(description);
        }
        std::thread::sleep(PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process plays its hardware; end that first"))
}

fn nodes(dev: &Path, cards: &[Card]) -> io::Result<()> {
    fs::create_dir_all(dev)?;
    for entry in fs::read_dir(dev)?.flatten() {
        if entry.file_name().as_bytes().starts_with(b"nvidia") && !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
        }
    }
    for card in cards {
        node(&dev.join(format!("nvidia{}", card.minor)), CARD_MAJOR, card.minor, OPEN_TO_ALL)?;
    }
    node(&dev.join("nvidiactl"), CARD_MAJOR, 255, OPEN_TO_ALL)?;
    node(&dev.join("nvidia-modeset"), CARD_MAJOR, 254, OPEN_TO_ALL)?;
    node(&dev.join("nvidia-uvm"), UVM_MAJOR, 0, OPEN_TO_ALL)?;
    node(&dev.join("nvidia-uvm-tools"), UVM_MAJOR, 1, OPEN_TO_ALL)
}

/// Makes a device node.
///
/// # Errors
/// Those of `mknod(2)`, with the path.
pub fn node(path: &Path, major: u32, minor: u32, mode: libc::mode_t) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the name is NUL-terminated and lives through both calls; chmod undoes the umask.
    let failed = unsafe {
        libc::mknod(name.as_ptr(), libc::S_IFCHR | mode, libc::makedev(major, minor)) != 0
            || libc::chmod(name.as_ptr(), mode) != 0
    };
    if failed {
        let error = io::Error::last_os_error();
        return Err(io::Error::new(error.kind(), format!("mknod {}: {error}", path.display())));
    }
    Ok(())
}

fn proc_texts(proc: &Path, hardware: &Hardware) -> io::Result<()> {
    let driver = proc.join("driver/nvidia");
    fs::create_dir_all(&driver)?;
    let devices = format!(
        "Character devices:\n  1 mem\n  5 /dev/tty\n136 pts\n{CARD_MAJOR} nvidia\n{CARD_MAJOR} nvidia-modeset\n\
         {CARD_MAJOR} nvidiactl\n{CAPABILITY_MAJOR} nvidia-caps\n{UVM_MAJOR} nvidia-uvm\n\nBlock devices:\n254 virtblk\n"
    );
    fs::write(proc.join("devices"), devices)?;
    let version = format!(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (root@simulated)\n\
         GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
        hardware.driver
    );
    fs::write(driver.join("version"), version)?;
    fs::write(driver.join("params"), PARAMS)?;
    let minors = proc.join("driver/nvidia-caps");
    fs::create_dir_all(&minors)?;
    fs::write(minors.join("mig-minors"), capability_table())?;
    fs::write(minors.join("nvlink-minors"), "fabric-mgmt 0\n")?;
    fs::write(minors.join("sys-minors"), "fabric-imex-mgmt 4323\n")?;
    let cards = driver.join("gpus");
    let _ = fs::remove_dir_all(&cards);
    fs::create_dir_all(&cards)?;
    for card in &hardware.cards {
        let folder = cards.join(card.bus_id());
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("information"), information(card, &hardware.driver))?;
    }
    Ok(())
}

const PARAMS: &str = "ResmanDebugLevel: 4294967295
RmLogonRC: 1
ModifyDeviceFiles: 1
DeviceFileUID: 0
DeviceFileGID: 0
DeviceFileMode: 438
InitializeSystemMemoryAllocations: 1
UsePageAttributeTable: 4294967295
EnableMSI: 1
EnablePCIeGen3: 0
MemoryPoolSize: 0
KMallocHeapMaxSize: 0
VMallocHeapMaxSize: 0
IgnoreMMIOCheck: 0
EnableStreamMemOPs: 0
EnableUserNUMAManagement: 1
NvLinkDisable: 0
RmProfilingAdminOnly: 1
PreserveVideoMemoryAllocations: 0
EnableS0ixPowerManagement: 0
S0ixPowerManagementVideoMemoryThreshold: 256
DynamicPowerManagement: 3
DynamicPowerManagementVideoMemoryThreshold: 200
RegisterPCIDriver: 1
EnablePCIERelaxedOrderingMode: 0
EnableResizableBar: 0
EnableGpuFirmware: 18
EnableGpuFirmwareLogs: 2
EnableDbgBreakpoint: 0
OpenRmEnableUnsupportedGpus: 1
DmaRemapPeerMmio: 1
ImexChannelCount: 2048
CreateImexChannel0: 0
GrdmaPciTopoCheckOverride: 0
CoherentGPUMemoryMode: \"\"
RegistryDwords: \"\"
RegistryDwordsPerDevice: \"\"
RmMsg: \"\"
GpuBlacklist: \"\"
TemporaryFilePath: \"\"
ExcludedGpus: \"\"
";

fn information(card: &Card, driver: &str) -> String {
    format!(
        "Model: \t\t {}\nIRQ:   \t\t {}\nGPU UUID: \t {}\nVideo BIOS: \t 96.00.74.00.01\nBus Type: \t PCIe\n\
         DMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t {}\nDevice Minor: \t {}\n\
         GPU Firmware: \t {driver}\nGPU Excluded:\t No\n",
        card.model,
        40 + card.minor,
        card.uuid,
        card.bus_id(),
        card.minor
    )
}

fn libraries(folder: &Path, libs: &Path, driver: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (built, stem, links) in [
        ("libbaton_sim_cuda.so", "libcuda.so", &["libcuda.so.1", "libcuda.so"][..]),
        ("libbaton_sim_nvml.so", "libnvidia-ml.so", &["libnvidia-ml.so.1", "libnvidia-ml.so"][..]),
    ] {
        let real = format!("{stem}.{driver}");
        let from = libs.join(built);
        let _ = fs::remove_file(folder.join(&real));
        let mut library = fs::read(&from)
            .map_err(|e| io::Error::new(e.kind(), format!("copy {}: {e}; build it first", from.display())))?;
        old_driver::take_away(&mut library, driver);
        fs::write(folder.join(&real), library)?;
        for link in links {
            let _ = fs::remove_file(folder.join(link));
            symlink(&real, folder.join(link))?;
        }
    }
    Ok(())
}

/// The driver's programs, where they have been built.
fn programs(folder: &Path, libs: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for name in ["nvidia-smi", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"] {
        let _ = fs::remove_file(folder.join(name));
        let from = libs.join(name);
        if from.exists() {
            fs::copy(&from, folder.join(name))?;
        }
    }
    Ok(())
}

/// The other firmware file is an ordinary one; `gsp_ga10x.bin` is made by `serve`.
fn firmware(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("gsp_tu10x.bin"), b"simulated firmware\n")
}
