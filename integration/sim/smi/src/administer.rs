//! What an operator sets on cards: MIG mode, persistence, compute mode; and the reset.

use crate::compute_policy::Timeslice;
use crate::device::Device;
use crate::nvml::ask;
use crate::outcome::{Code, Failure, IN_USE, NOT_SUPPORTED, Outcome};

/// Does it to each; the first that fails ends it.
fn each(devices: &[Device<'_>], what: &str, act: impl Fn(Device<'_>, &str) -> Result<String, Code>) -> Outcome {
    for device in devices {
        let bus_id = device.bus_id().unwrap_or_default();
        match act(*device, &bus_id) {
            Ok(said) => println!("{said}"),
            Err(code) => {
                let why = device.nvml.text_of(code);
                let text =
                    format!("Unable to {what} for GPU {bus_id}: {why}\nTerminating early due to previous errors.");
                return Err(Failure::of(code, text));
            }
        }
    }
    println!("All done.");
    Ok(())
}

fn done(code: Code, said: String) -> Result<String, Code> {
    if code == 0 { Ok(said) } else { Err(code) }
}

/// `-mig`
pub fn mig_mode(devices: &[Device<'_>], on: bool) -> Outcome {
    let (verb, state) = if on { ("enable", "Enabled") } else { ("disable", "Disabled") };
    each(devices, &format!("{verb} MIG Mode"), |device, bus_id| {
        let status = ask!(device.nvml, nvmlDeviceSetMigMode(device.handle, u32::from(on)) -> Code)?;
        match status {
            0 => Ok(format!("{state} MIG Mode for GPU {bus_id}")),
            code => {
                let why = device.nvml.text_of(code);
                let mut said = format!("Warning: MIG mode is in pending {verb} state for GPU {bus_id}:{why}");
                if code == IN_USE {
                    said += &format!(
                        "\n{bus_id} is currently being used by one or more other processes (e.g. CUDA application or a \
                         monitoring application such as another instance of nvidia-smi). Please first kill all processes \
                         using the device and retry the command or reboot the system to make MIG mode effective."
                    );
                }
                Ok(said)
            }
        }
    })
}

/// `-pm`
pub fn persistence(devices: &[Device<'_>], on: bool) -> Outcome {
    let state = if on { "Enabled" } else { "Disabled" };
    each(devices, "set persistence mode", |device, bus_id| {
        if device.persistence()? == on {
            return Ok(format!("Persistence mode is already {state} for GPU {bus_id}."));
        }
        // SAFETY: plain arguments.
        let code = unsafe { device.nvml.0.nvmlDeviceSetPersistenceMode(device.handle, u32::from(on)) };
        done(code, format!("{state} persistence mode for GPU {bus_id}."))
    })
}

/// `-c`
pub fn compute_mode(devices: &[Device<'_>], mode: u32) -> Outcome {
    let word = ["DEFAULT", "EXCLUSIVE_THREAD", "PROHIBITED", "EXCLUSIVE_PROCESS"][mode.min(3) as usize];
    each(devices, "set the compute mode", |device, bus_id| {
        if device.compute_mode()? == mode {
            return Ok(format!("Compute mode is already set to {word} for GPU {bus_id}."));
        }
        // SAFETY: plain arguments.
        let code = unsafe { device.nvml.0.nvmlDeviceSetComputeMode(device.handle, mode) };
        done(code, format!("Set compute mode to {word} for GPU {bus_id}."))
    })
}

/// `compute-policy --set-timeslice`, by a function of the simulated library alone.
pub fn timeslice(devices: &[Device<'_>], timeslice: Timeslice) -> Outcome {
    each(devices, "set the timeslice", |device, bus_id| {
        let set = device.nvml.own().set_timeslice.ok_or(NOT_SUPPORTED)?;
        // SAFETY: plain arguments.
        let code = unsafe { set(device.handle, timeslice.number()) };
        done(code, format!("Set timeslice to {} for GPU {bus_id}.", timeslice.name()))
    })
}

/// `-r`
pub fn reset(devices: &[Device<'_>]) -> Outcome {
    for device in devices {
        let bus_id = device.bus_id().unwrap_or_default();
        match reset_card(*device) {
            0 => println!("GPU {bus_id} was successfully reset."),
            IN_USE => {
                return Err(Failure::of(
                    IN_USE,
                    format!(
                        "The following GPUs could not be reset:\n  GPU {bus_id}: In use by another client\n\n\
                         1 device is currently being used by one or more other processes (e.g., Fabric Manager, CUDA \
                         application, graphics application such as an X server, or a monitoring application such as \
                         another instance of nvidia-smi). Please first kill all processes using this device and all \
                         compute applications running in the system."
                    ),
                ));
            }
            code => {
                let text = format!("Unable to reset GPU {bus_id}: {}", device.nvml.text_of(code));
                return Err(Failure::of(code, text));
            }
        }
    }
    println!("All done.");
    Ok(())
}

/// By a function of the simulated library alone: the real one's reset is not public.
fn reset_card(device: Device<'_>) -> Code {
    device.nvml.own().reset.map_or(NOT_SUPPORTED, |reset| {
        // SAFETY: the handle is the library's own.
        unsafe { reset(device.handle) }
    })
}
