//! What a card measures of itself.

use nvml_wrapper_sys::bindings::{nvmlBAR1Memory_t, nvmlUtilization_t};

use crate::device::Device;
use crate::nvml::ask;
use crate::outcome::Code;

/// `nvmlClockType_t`.
#[derive(Clone, Copy)]
pub enum Clock {
    /// `NVML_CLOCK_GRAPHICS`
    Graphics = 0,
    /// `NVML_CLOCK_SM`
    Multiprocessors = 1,
    /// `NVML_CLOCK_MEM`
    Memory = 2,
    /// `NVML_CLOCK_VIDEO`
    Video = 3,
}

/// An engine beside the multiprocessors.
#[derive(Clone, Copy)]
pub enum Engine {
    /// Makes videos.
    Encoder,
    /// Reads videos.
    Decoder,
    /// Reads pictures.
    Jpeg,
    /// Optical flow.
    OpticalFlow,
}

/// Where errors of memory are counted: `nvmlMemoryLocation_t`.
#[derive(Clone, Copy)]
pub enum Location {
    /// `NVML_MEMORY_LOCATION_DRAM`
    Dram = 2,
    /// `NVML_MEMORY_LOCATION_SRAM`
    Sram = 7,
}

/// `nvmlMemoryErrorType_t`.
#[derive(Clone, Copy)]
pub enum Errors {
    /// `NVML_MEMORY_ERROR_TYPE_CORRECTED`
    Corrected = 0,
    /// `NVML_MEMORY_ERROR_TYPE_UNCORRECTED`
    Uncorrected = 1,
}

/// Rows of memory that were replaced.
#[derive(Clone, Copy)]
pub struct RemappedRows {
    /// After errors that were corrected.
    pub corrected: u32,
    /// After errors that were not.
    pub uncorrected: u32,
    /// Some wait for a reset.
    pub pending: bool,
    /// Some could not be replaced.
    pub failed: bool,
}

/// `165.00` from milliwatts.
pub fn watts(milliwatts: u32) -> String {
    format!("{}.{:02}", milliwatts / 1000, milliwatts % 1000 / 10)
}

impl Device<'_> {
    fn rates(&self) -> Result<nvmlUtilization_t, Code> {
        ask!(self.nvml, nvmlDeviceGetUtilizationRates(self.handle) -> nvmlUtilization_t)
    }

    /// Per cent of time in which a kernel ran.
    pub fn load(&self) -> Result<u32, Code> {
        self.rates().map(|rates| rates.gpu)
    }

    /// Per cent of time in which memory was read or written.
    pub fn memory_load(&self) -> Result<u32, Code> {
        self.rates().map(|rates| rates.memory)
    }

    /// Per cent of time in which an engine worked.
    pub fn engine_load(&self, engine: Engine) -> Result<u32, Code> {
        // SAFETY: both are places for an unsigned int: the load, and how long it was counted.
        let found = self.two(|nvml, device, load: *mut u32, period: *mut u32| unsafe {
            match engine {
                Engine::Encoder => nvml.nvmlDeviceGetEncoderUtilization(device, load, period),
                Engine::Decoder => nvml.nvmlDeviceGetDecoderUtilization(device, load, period),
                Engine::Jpeg => nvml.nvmlDeviceGetJpgUtilization(device, load, period),
                Engine::OpticalFlow => nvml.nvmlDeviceGetOfaUtilization(device, load, period),
            }
        });
        found.map(|(load, _)| load)
    }

    /// Memory that the processor can reach.
    pub fn bar1(&self) -> Result<nvmlBAR1Memory_t, Code> {
        ask!(self.nvml, nvmlDeviceGetBAR1MemoryInfo(self.handle) -> nvmlBAR1Memory_t)
    }

    /// Degrees Celsius.
    pub fn temperature(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetTemperature(self.handle, 0) -> u32)
    }

    /// Per cent.
    pub fn fan(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetFanSpeed(self.handle) -> u32)
    }

    /// `P0` to `P12`.
    pub fn performance(&self) -> Result<String, Code> {
        ask!(self.nvml, nvmlDeviceGetPerformanceState(self.handle) -> u32).map(|state| format!("P{state}"))
    }

    /// `nvmlClocksThrottleReason…`: what keeps the clocks down.
    pub fn slowed_by(&self) -> Result<u64, Code> {
        ask!(self.nvml, nvmlDeviceGetCurrentClocksThrottleReasons(self.handle) -> u64)
    }

    /// MHz.
    pub fn clock(&self, clock: Clock) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetClockInfo(self.handle, clock as u32) -> u32)
    }

    /// MHz.
    pub fn highest_clock(&self, clock: Clock) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetMaxClockInfo(self.handle, clock as u32) -> u32)
    }

    /// Milliwatts.
    pub fn power_draw(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetPowerUsage(self.handle) -> u32)
    }

    /// The limit that was asked for, in milliwatts.
    pub fn power_limit(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetPowerManagementLimit(self.handle) -> u32)
    }

    /// The limit that holds, in milliwatts.
    pub fn enforced_limit(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetEnforcedPowerLimit(self.handle) -> u32)
    }

    /// The limit after a start of the driver, in milliwatts.
    pub fn default_limit(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetPowerManagementDefaultLimit(self.handle) -> u32)
    }

    /// The lowest limit that can be asked for, and the highest, in milliwatts.
    pub fn power_limits(&self) -> Result<(u32, u32), Code> {
        // SAFETY: both are places for an unsigned int.
        self.two(|nvml, device, least, most| unsafe {
            nvml.nvmlDeviceGetPowerManagementLimitConstraints(device, least, most)
        })
    }

    /// Generation of the PCIe link now.
    pub fn link_generation(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetCurrPcieLinkGeneration(self.handle) -> u32)
    }

    /// The highest that card and machine have in common.
    pub fn highest_link_generation(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetMaxPcieLinkGeneration(self.handle) -> u32)
    }

    /// Lanes of the PCIe link now.
    pub fn link_width(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetCurrPcieLinkWidth(self.handle) -> u32)
    }

    /// The most that card and machine have in common.
    pub fn highest_link_width(&self) -> Result<u32, Code> {
        ask!(self.nvml, nvmlDeviceGetMaxPcieLinkWidth(self.handle) -> u32)
    }

    /// Whether memory is checked, now and after the next reset.
    pub fn ecc(&self) -> Result<(bool, bool), Code> {
        // SAFETY: both are places for an nvmlEnableState_t.
        let found = self.two(|nvml, device, current: *mut u32, pending: *mut u32| unsafe {
            nvml.nvmlDeviceGetEccMode(device, current, pending)
        });
        found.map(|(current, pending)| (current != 0, pending != 0))
    }

    /// Errors of memory since the driver was loaded: those that were corrected, or those that were not.
    pub fn errors(&self, kind: Errors) -> Result<u64, Code> {
        ask!(self.nvml, nvmlDeviceGetTotalEccErrors(self.handle, kind as u32, 0) -> u64)
    }

    /// Errors of one kind of memory, since the driver was loaded or since the card was made.
    pub fn errors_of(&self, location: Location, kind: Errors, ever: bool) -> Result<u64, Code> {
        let (kind, counter, location) = (kind as u32, u32::from(ever), location as u32);
        ask!(self.nvml, nvmlDeviceGetMemoryErrorCounter(self.handle, kind, counter, location) -> u64)
    }

    /// Rows of memory that were replaced.
    pub fn remapped_rows(&self) -> Result<RemappedRows, Code> {
        let [mut corrected, mut uncorrected, mut pending, mut failed] = [0; 4];
        // SAFETY: all four are places for an unsigned int.
        let code = unsafe {
            self.nvml.0.nvmlDeviceGetRemappedRows(
                self.handle,
                &raw mut corrected,
                &raw mut uncorrected,
                &raw mut pending,
                &raw mut failed,
            )
        };
        let found = RemappedRows { corrected, uncorrected, pending: pending != 0, failed: failed != 0 };
        if code == 0 { Ok(found) } else { Err(code) }
    }
}
