//! Which cards a command is for.

use std::ffi::CString;

use nvml_wrapper_sys::bindings::nvmlDevice_t;

use crate::device::Device;
use crate::nvml::{Nvml, ask};
use crate::outcome::{Failure, Outcome};

/// The cards that are named: by index, UUID or PCI bus id, with commas between them. All, where none is named.
pub fn devices<'n>(nvml: &'n Nvml, named: Option<&str>) -> Outcome<Vec<Device<'n>>> {
    let all = nvml.cards().map_err(|code| Failure::of(code, nvml.text_of(code)))?;
    let Some(named) = named else { return Ok(all) };
    named.split(',').map(|name| find(nvml, &all, name.trim()).ok_or_else(Failure::no_devices)).collect()
}

fn find<'n>(nvml: &'n Nvml, all: &[Device<'n>], name: &str) -> Option<Device<'n>> {
    if let Ok(index) = name.parse::<usize>() {
        return all.get(index).copied();
    }
    let text = CString::new(name).ok()?;
    let handle = if name.contains(':') {
        ask!(nvml, nvmlDeviceGetHandleByPciBusId_v2(text.as_ptr()) -> nvmlDevice_t)
    } else {
        ask!(nvml, nvmlDeviceGetHandleByUUID(text.as_ptr()) -> nvmlDevice_t)
    };
    handle.ok().map(|handle| Device { nvml, handle })
}
