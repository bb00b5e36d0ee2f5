//! A card or a MIG device, and what the library tells of it.

use std::ffi::c_char;

use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlDevice_t, nvmlDeviceAttributes_t, nvmlMemory_v2_t, nvmlPciInfo_t, nvmlProcessInfo_t, nvmlReturn_t,
};

use crate::nvml::{Nvml, ask};
use crate::outcome::{Code, NO_PERMISSION, NOT_SUPPORTED};

/// A handle, with the library that knows it.
#[derive(Clone, Copy)]
pub struct Device<'n> {
    /// The library.
    pub nvml: &'n Nvml,
    /// The handle.
    pub handle: nvmlDevice_t,
}

/// MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// All.
    pub total: u64,
    /// What the driver keeps.
    pub reserved: u64,
    /// Held.
    pub used: u64,
    /// To be had.
    pub free: u64,
}

/// The most processes that are listed.
const MOST_PROCESSES: usize = 1024;

impl<'n> Device<'n> {
    fn text(
        &self,
        call: impl FnOnce(&NvmlLib, nvmlDevice_t, *mut c_char, u32) -> nvmlReturn_t,
    ) -> Result<String, Code> {
        self.nvml.text(|nvml, to, room| call(nvml, self.handle, to, room))
    }

    /// Product name.
    pub fn name(&self) -> Result<String, Code> {
        // SAFETY: the place has the room that is named.
        self.text(|nvml, device, to, room| unsafe { nvml.nvmlDeviceGetName(device, to, room) })
    }

    /// `GPU-…` or `MIG-…`.
    pub fn uuid(&self) -> Result<String, Code> {
        // SAFETY: the place has the room that is named.
        self.text(|nvml, device, to, room| unsafe { nvml.nvmlDeviceGetUUID(device, to, room) })
    }

    /// Serial number of the board.
    pub fn serial(&self) -> Result<String, Code> {
        // SAFETY: the place has the room that is named.
        self.text(|nvml, device, to, room| unsafe { nvml.nvmlDeviceGetSerial(device, to, room) })
    }

    /// Version of its firmware.
    pub fn vbios(&self) -> Result<String, Code> {
        // SAFETY: the place has the room that is named.
        self.text(|nvml, device, to, room| unsafe { nvml.nvmlDeviceGetVbiosVersion(device, to, room) })
    }

    /// Part number of the board.
    pub fn part(&self) -> Result<String, Code> {
        // SAFETY: the place has the room that is named.
        self.text(|nvml, device, to, room| unsafe { nvml.nvmlDeviceGetBoardPartNumber(device, to, room) })
    }

    /// Where it is plugged in.
    pub fn pci(&self) -> Result<nvmlPciInfo_t, Code> {
        ask!(self.nvml, nvmlDeviceGetPciInfo_v3(self.handle) -> nvmlPciInfo_t)
    }

    /// `00000000:1B:00.0`.
    pub fn bus_id(&self) -> Result<String, Code> {
        let pci = self.pci()?;
        Ok(format!("{:08X}:{:02X}:{:02X}.0", pci.domain, pci.bus, pci.device))
    }

    /// NVML's index, or a MIG device's in its card.
    pub fn index(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetIndex(self.handle) -> u32)
    }

    /// Its memory.
    pub fn memory(&self) -> Result<Memory, Code> {
        let mut asked = nvmlMemory_v2_t { version: 0x0200_0028, total: 0, reserved: 0, free: 0, used: 0 };
        // SAFETY: the struct is of the version that it names.
        let code = unsafe { self.nvml.0.nvmlDeviceGetMemoryInfo_v2(self.handle, &raw mut asked) };
        let mebibytes = |bytes: u64| bytes >> 20;
        let nvmlMemory_v2_t { total, reserved, free, used, .. } = asked;
        let [total, reserved, free, used] = [total, reserved, free, used].map(mebibytes);
        if code == 0 { Ok(Memory { total, reserved, used, free }) } else { Err(code) }
    }

    /// What a function answers that has two places for it.
    pub fn two<A: Default, B: Default>(
        &self,
        call: impl FnOnce(&NvmlLib, nvmlDevice_t, *mut A, *mut B) -> nvmlReturn_t,
    ) -> Result<(A, B), Code> {
        let (mut first, mut second) = (A::default(), B::default());
        match call(&self.nvml.0, self.handle, &raw mut first, &raw mut second) {
            0 => Ok((first, second)),
            code => Err(code),
        }
    }

    /// MIG mode now, and after the next reset; an error where it has none.
    pub fn mig_mode(&self) -> Result<(bool, bool), Code> {
        // SAFETY: both are places for an unsigned int.
        let found = self.two(|nvml, device, current: *mut u32, pending: *mut u32| unsafe {
            nvml.nvmlDeviceGetMigMode(device, current, pending)
        });
        found.map(|(current, pending)| (current != 0, pending != 0))
    }

    /// Major and minor number of its compute capability.
    pub fn capability(&self) -> Result<(i32, i32), Code> {
        // SAFETY: both are places for an int.
        self.two(|nvml, device, major, minor| unsafe { nvml.nvmlDeviceGetCudaComputeCapability(device, major, minor) })
    }

    /// Whether it is on.
    pub fn persistence(&self) -> Result<bool, Code> {
        ask!(self.nvml, nvmlDeviceGetPersistenceMode(self.handle) -> u32).map(|mode| mode != 0)
    }

    /// `nvmlComputeMode_t`.
    pub fn compute_mode(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetComputeMode(self.handle) -> u32)
    }

    /// How long processes take turns, as nvidia-smi numbers it.
    pub fn timeslice(&self) -> Result<u32, Code> {
        let get = self.nvml.own().timeslice.ok_or(NOT_SUPPORTED)?;
        let mut timeslice = 0;
        // SAFETY: a place for an unsigned int.
        let code = unsafe { get(self.handle, &raw mut timeslice) };
        if code == 0 { Ok(timeslice) } else { Err(code) }
    }

    /// The MIG devices.
    pub fn mig_devices(&self) -> Vec<Device<'n>> {
        let most = ask!(self.nvml, nvmlDeviceGetMaxMigDeviceCount(self.handle) -> u32).unwrap_or(0);
        let at = |index| ask!(self.nvml, nvmlDeviceGetMigDeviceHandleByIndex(self.handle, index) -> nvmlDevice_t);
        (0..most).filter_map(at_ok(at)).map(|handle| Device { nvml: self.nvml, handle }).collect()
    }

    /// A MIG device's GPU instance and compute instance.
    pub fn instance(&self) -> Result<(u32, u32), Code> {
        let gpu = ask!(self.nvml, nvmlDeviceGetGpuInstanceId(self.handle) -> u32)?;
        Ok((gpu, ask!(self.nvml, nvmlDeviceGetComputeInstanceId(self.handle) -> u32)?))
    }

    /// What a MIG device has.
    pub fn attributes(&self) -> Result<nvmlDeviceAttributes_t, Code> {
        ask!(self.nvml, nvmlDeviceGetAttributes_v2(self.handle) -> nvmlDeviceAttributes_t)
    }

    /// What a MIG device is called without its card's name: `3g.20gb`.
    pub fn profile(&self) -> Result<String, Code> {
        let name = self.name()?;
        Ok(name.rsplit_once(" MIG ").map_or(name.clone(), |(_, profile)| profile.to_owned()))
    }

    /// Who has memory or a context on it.
    pub fn processes(&self) -> Result<Vec<nvmlProcessInfo_t>, Code> {
        let none = nvmlProcessInfo_t { pid: 0, usedGpuMemory: 0, gpuInstanceId: 0, computeInstanceId: 0 };
        let (mut count, mut list) = (MOST_PROCESSES as u32, vec![none; MOST_PROCESSES]);
        // SAFETY: the list has as many entries as the count says.
        let code = unsafe {
            self.nvml.0.nvmlDeviceGetComputeRunningProcesses_v3(self.handle, &raw mut count, list.as_mut_ptr())
        };
        list.truncate(count as usize);
        if code == 0 { Ok(list) } else { Err(code) }
    }

    /// The same; none where this process is not told.
    pub fn known_processes(&self) -> Result<Vec<nvmlProcessInfo_t>, Code> {
        match self.processes() {
            Err(NOT_SUPPORTED | NO_PERMISSION) => Ok(Vec::new()),
            answer => answer,
        }
    }
}

/// Past what is not there.
fn at_ok<T>(at: impl Fn(u32) -> Result<T, Code>) -> impl Fn(u32) -> Option<T> {
    move |index| at(index).ok()
}
