//! What is set on a card, and who may set it: MIG mode, compute mode, persistence; and what a card of these kinds is always
//! set to.

use baton_sim_wire::{Change, ComputeMode, Settings, Timeslice};

use crate::codes::{Code, Outcome};
use crate::handle::{Handle, Target};
use crate::library::{Library, Now, call};
use crate::pointer::Place;
use crate::profile;

/// `NVML_GPU_VIRTUALIZATION_MODE_VGPU` of nvml.h: a vGPU in a guest.
const VGPU: u32 = 2;

fn setting<T>(name: &str, device: Handle, to: Place<T>, of: impl FnOnce(Settings) -> T) -> i32 {
    call(name, |library| {
        to.exists()?;
        to.give(of(library.now(device)?.held.settings))
    })
}

fn on(mode: u32) -> Outcome<bool> {
    match mode {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigMode(device: Handle, current: Place<u32>, pending: Place<u32>) -> i32 {
    call("nvmlDeviceGetMigMode", |library| {
        let now = library.now(device)?;
        current.exists().and(pending.exists())?;
        profile::table(&now)?;
        let Settings { mig, pending_mig, .. } = now.held.settings;
        current.give(u32::from(mig)).and(pending.give(u32::from(pending_mig)))
    })
}

/// A mode that cannot be taken up at once stays pending: the call has succeeded, and the status says why.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceSetMigMode(device: Handle, mode: u32, status: Place<i32>) -> i32 {
    call("nvmlDeviceSetMigMode", |library| {
        let now = library.now(device)?;
        status.exists()?;
        let change = Change::Mig(on(mode)?);
        profile::table(&now)?;
        match library.administer(now.place, change) {
            Ok(_) => status.give(0),
            Err(Code::IN_USE) => status.give(Code::IN_USE.0),
            Err(code) => Err(code),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeMode(device: Handle, mode: Place<u32>) -> i32 {
    setting("nvmlDeviceGetComputeMode", device, mode, |settings| {
        if settings.mig { ComputeMode::Default.number() } else { settings.compute_mode.number() }
    })
}

/// In MIG mode changing it is not supported (nvml.h).
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceSetComputeMode(device: Handle, mode: u32) -> i32 {
    call("nvmlDeviceSetComputeMode", |library| {
        let now = library.now(device)?;
        let mode = ComputeMode::of_number(mode).ok_or(Code::INVALID_ARGUMENT)?;
        if now.held.settings.mig || now.held.card.guest {
            return Err(Code::NOT_SUPPORTED);
        }
        library.administer(now.place, Change::ComputeMode(mode)).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPersistenceMode(device: Handle, mode: Place<u32>) -> i32 {
    setting("nvmlDeviceGetPersistenceMode", device, mode, |settings| u32::from(settings.persistence))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceSetPersistenceMode(device: Handle, mode: u32) -> i32 {
    call("nvmlDeviceSetPersistenceMode", |library| {
        let change = Change::Persistence(on(mode)?);
        library.administer(library.place(device)?, change).map(drop)
    })
}

/// What `nvidia-smi --gpu-reset` uses. The real one reaches its reset by a table of functions that is not public; this is
/// the simulation's own.
#[unsafe(no_mangle)]
extern "C" fn batonDeviceReset(device: Handle) -> i32 {
    call("batonDeviceReset", |library| library.administer(library.place(device)?, Change::Reset).map(drop))
}

/// What `nvidia-smi compute-policy --list` uses: the simulation's own too. 0 to 3; not of a vGPU, nor of a card in MIG mode.
#[unsafe(no_mangle)]
extern "C" fn batonDeviceGetTimeslice(device: Handle, to: Place<u32>) -> i32 {
    call("batonDeviceGetTimeslice", |library| to.give(takes_turns(library, device)?.held.settings.timeslice.number()))
}

/// What `nvidia-smi compute-policy --set-timeslice` uses.
#[unsafe(no_mangle)]
extern "C" fn batonDeviceSetTimeslice(device: Handle, number: u32) -> i32 {
    call("batonDeviceSetTimeslice", |library| {
        let now = takes_turns(library, device)?;
        let timeslice = Timeslice::of_number(number).ok_or(Code::INVALID_ARGUMENT)?;
        library.administer(now.place, Change::Timeslice(timeslice)).map(drop)
    })
}

/// A card whose processes take turns by its own driver's rule.
fn takes_turns(library: &Library, device: Handle) -> Outcome<Now> {
    let now = library.now(device)?;
    if now.held.settings.mig || now.held.card.guest { Err(Code::NOT_SUPPORTED) } else { Ok(now) }
}

/// A constant of whole cards.
fn constant<T>(name: &str, device: Handle, to: Place<T>, value: T) -> i32 {
    call(name, |library| library.card(device).and_then(|_| to.give(value)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetVirtualizationMode(device: Handle, mode: Place<u32>) -> i32 {
    call("nvmlDeviceGetVirtualizationMode", |library| mode.give(if library.card(device)?.guest { VGPU } else { 0 }))
}

/// Checked memory is always on, of a vGPU too.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEccMode(device: Handle, current: Place<u32>, pending: Place<u32>) -> i32 {
    call("nvmlDeviceGetEccMode", |library| {
        library.at(device.target().map(Target::card)?)?;
        current.exists().and(pending.exists())?;
        current.give(1).and(pending.give(1))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDefaultEccMode(device: Handle, mode: Place<u32>) -> i32 {
    constant("nvmlDeviceGetDefaultEccMode", device, mode, 1)
}

/// There is no display.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDisplayMode(device: Handle, mode: Place<u32>) -> i32 {
    constant("nvmlDeviceGetDisplayMode", device, mode, 0)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDisplayActive(device: Handle, active: Place<u32>) -> i32 {
    constant("nvmlDeviceGetDisplayActive", device, active, 0)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetAccountingMode(device: Handle, mode: Place<u32>) -> i32 {
    constant("nvmlDeviceGetAccountingMode", device, mode, 0)
}

/// Whether only root may set clocks (`NVML_RESTRICTED_API_…`): yes.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetAPIRestriction(device: Handle, api: u32, restricted: Place<u32>) -> i32 {
    call("nvmlDeviceGetAPIRestriction", |library: &Library| {
        library.card(device)?;
        if api > 1 { Err(Code::INVALID_ARGUMENT) } else { restricted.give(1) }
    })
}
