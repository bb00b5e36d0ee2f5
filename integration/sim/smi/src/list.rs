//! `nvidia-smi -L` and `--version`.

use crate::device::Device;
use crate::nvml::Nvml;
use crate::outcome::{Failure, Outcome};

/// Each card, and its MIG devices below it.
pub fn list(devices: &[Device<'_>]) -> Outcome {
    for device in devices {
        let told = |code| Failure::of(code, format!("Unable to retrieve device info: {}", device.nvml.text_of(code)));
        let (index, name, uuid) = (device.index(), device.name(), device.uuid());
        println!("GPU {}: {} (UUID: {})", index.map_err(told)?, name.map_err(told)?, uuid.map_err(told)?);
        for mig in device.mig_devices() {
            let (index, profile, uuid) = (mig.index(), mig.profile(), mig.uuid());
            println!("{}", mig_line(index.map_err(told)?, &profile.map_err(told)?, &uuid.map_err(told)?));
        }
    }
    Ok(())
}

fn mig_line(index: u32, profile: &str, uuid: &str) -> String {
    format!("  MIG {profile:<11} Device {index:>2}: (UUID: {uuid})")
}

/// The versions of all parts.
pub fn version(nvml: &Nvml) -> Outcome {
    let driver = nvml.driver();
    let short = nvml.version().split('.').skip(1).take(2).collect::<Vec<_>>().join(".");
    println!("NVIDIA-SMI version  : {driver}");
    println!("NVML version        : {short}");
    println!("DRIVER version      : {driver}");
    println!("CUDA Version        : {}", nvml.cuda());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the MIG user guide shows them.
    #[test]
    fn mig_devices_stand_in_columns() {
        assert_eq!(mig_line(0, "3g.20gb", "MIG-1"), "  MIG 3g.20gb     Device  0: (UUID: MIG-1)");
        assert_eq!(mig_line(2, "1c.3g.20gb", "MIG-1"), "  MIG 1c.3g.20gb  Device  2: (UUID: MIG-1)");
    }
}
