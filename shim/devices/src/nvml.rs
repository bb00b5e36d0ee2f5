//! NVML, the one place where it is met: `libnvidia-ml.so` under the driver root, loaded for one question.

use baton_config::Driver;
use baton_fault::{Code, Fault, Result};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use serde::{Deserialize, Serialize};

use crate::libraries::{NVML, is_version, locate};
use crate::root::DriverRoot;
use crate::{Card, ComputeCapability, GpuUuid, Inventory};

/// Most cards that are asked for: NVML's own bound is 32, minor numbers end at 247.
const CARDS_MAX: u32 = 256;

/// What is in use on one card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardUsage {
    /// The card.
    pub uuid: GpuUuid,
    /// All of its memory, in bytes.
    pub total: u64,
    /// Free, in bytes.
    pub free: u64,
    /// In use, in bytes; with what the driver keeps for itself it makes the total.
    pub used: u64,
    /// Host process ids with what each holds, in bytes; `None` where the driver does not tell.
    pub processes: Vec<(u32, Option<u64>)>,
}

/// What is in use on these cards, in their order.
///
/// # Errors
/// `DRIVER_MISSING` without a driver, `DEVICE_UNKNOWN` for a card that is not here.
pub fn usage(driver: &Driver, cards: &[GpuUuid]) -> Result<Vec<CardUsage>> {
    let session = Session::open(driver)?;
    cards.iter().map(|uuid| session.usage(*uuid)).collect()
}

/// NVML, initialised; shut down when dropped.
pub struct Session {
    nvml: Nvml,
}

impl Session {
    /// Loads the library that lies under the driver root.
    pub fn open(driver: &Driver) -> Result<Session> {
        let library = locate(&DriverRoot::open(driver)?, NVML)?;
        let nvml = Nvml::builder().lib_path(library.as_os_str()).init().map_err(|err| {
            Fault::new(Code::DriverMissing, format!("start NVML from {}", library.display()), err)
                .advise("look whether the driver's modules are loaded and of the version of its libraries")
        })?;
        Ok(Session { nvml })
    }

    /// All cards.
    pub fn inventory(&self) -> Result<Inventory> {
        let driver_version = self.nvml.sys_driver_version().map_err(|err| refused("the driver version", &err))?;
        if !is_version(&driver_version) {
            return Err(refused("the driver version", &format!("{driver_version:?} is none")));
        }
        let cuda = self.nvml.sys_cuda_driver_version().map_err(|err| refused("the CUDA version", &err))?;
        let count = self.nvml.device_count().map_err(|err| refused("the number of cards", &err))?;
        let cards = (0..count.min(CARDS_MAX))
            .map(|index| {
                let device = self.nvml.device_by_index(index);
                device.and_then(|device| card(index, &device)).map_err(|err| refused(&format!("card {index}"), &err))?
            })
            .collect::<Result<_>>()?;
        Ok(Inventory { driver_version, cuda_version: u32::try_from(cuda).unwrap_or(0), cards })
    }

    fn usage(&self, uuid: GpuUuid) -> Result<CardUsage> {
        let device = self.nvml.device_by_uuid(uuid.to_string()).map_err(|err| match err {
            NvmlError::NotFound | NvmlError::InvalidArg => {
                Fault::new(Code::DeviceUnknown, format!("find GPU {uuid}"), "this node has no such card")
                    .advise("`baton devices` lists the cards")
            }
            err => refused(&format!("card {uuid}"), &err),
        })?;
        let memory = device.memory_info().map_err(|err| refused(&format!("memory of {uuid}"), &err))?;
        let mut processes = processes(device.running_compute_processes(), uuid)?;
        for graphics in self::processes(device.running_graphics_processes(), uuid)? {
            if !processes.iter().any(|(pid, _)| *pid == graphics.0) {
                processes.push(graphics);
            }
        }
        processes.sort_unstable();
        Ok(CardUsage { uuid, total: memory.total, free: memory.free, used: memory.used, processes })
    }
}

fn card(index: u32, device: &Device<'_>) -> std::result::Result<Result<Card>, NvmlError> {
    let capability = device.cuda_compute_capability()?;
    let uuid = device.uuid()?;
    let model = device.name()?;
    let memory_total = device.memory_info()?.total;
    let pci_bus_id = device.pci_info()?.bus_id;
    let minor = device.minor_number()?;
    // Cards and drivers without MIG refuse the question.
    let mig_enabled = device.mig_mode().is_ok_and(|mode| mode.current != 0);
    Ok(uuid.parse().map(|uuid| Card {
        index,
        uuid,
        model,
        compute_capability: ComputeCapability {
            major: u32::try_from(capability.major).unwrap_or(0),
            minor: u32::try_from(capability.minor).unwrap_or(0),
        },
        memory_total,
        pci_bus_id,
        minor,
        mig_enabled,
    }))
}

/// The processes of one kind; a card that does not keep that list has none.
fn processes(
    answer: std::result::Result<Vec<ProcessInfo>, NvmlError>,
    uuid: GpuUuid,
) -> Result<Vec<(u32, Option<u64>)>> {
    match answer {
        Ok(list) => Ok(list.into_iter().map(|process| (process.pid, bytes(&process.used_gpu_memory))).collect()),
        Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => Ok(Vec::new()),
        Err(err) => Err(refused(&format!("processes on {uuid}"), &err)),
    }
}

fn bytes(used: &UsedGpuMemory) -> Option<u64> {
    match used {
        UsedGpuMemory::Used(bytes) => Some(*bytes),
        UsedGpuMemory::Unavailable => None,
    }
}

fn refused(what: &str, why: &dyn std::fmt::Display) -> Fault {
    Fault::new(Code::DriverMissing, format!("ask NVML for {what}"), why)
        .advise("look at the kernel's log and at `nvidia-smi` on this node")
}
