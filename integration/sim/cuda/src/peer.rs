//! Whether devices reach each other's memory: whole cards do, a MIG device reaches nobody.

use crate::call::call;
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::init::cuda_version;
use crate::table::Handle;

fn reach(parts: &Parts, device: i32, other: i32) -> Outcome<bool> {
    let (one, two) = (parts.slot_of_device(device)?, parts.slot_of_device(other)?);
    let is_part = |slot: usize| parts.slots[slot].instance.is_some();
    Ok(one != two && !is_part(one) && !is_part(two))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut i32, device: i32, other: i32) -> i32 {
    // SAFETY: the C caller gives a place for an int.
    call("cuDeviceCanAccessPeer", |parts| unsafe { give(can, i32::from(reach(parts, device, other)?)) })
}

/// `CUdevice_P2PAttribute` of cuda.h: performance rank, access, atomics, arrays, and, since CUDA 13.0, whether only some
/// atomics work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetP2PAttribute(value: *mut i32, number: u32, from: i32, to: i32) -> i32 {
    call("cuDeviceGetP2PAttribute", |parts| {
        let reach = reach(parts, from, to)?;
        let found = match number {
            1 => 0,
            2 | 3 => i32::from(reach),
            4 => 0,
            5 if cuda_version() >= 13000 => 0,
            _ => return Err(Code::INVALID_VALUE),
        };
        // SAFETY: the C caller gives a place for an int.
        unsafe { give(value, found) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxEnablePeerAccess(peer: Handle, flags: u32) -> i32 {
    call("cuCtxEnablePeerAccess", |parts| {
        let (context, slot) = parts.current()?;
        let other = parts.contexts.get(peer)?.slot;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let devices = (parts.device_of_slot(slot)?, parts.device_of_slot(other)?);
        if peer == context || !reach(parts, devices.0, devices.1)? {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        let peers = &mut parts.contexts.get_mut(context)?.peers;
        if peers.contains(&peer) {
            return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
        }
        peers.push(peer);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxDisablePeerAccess(peer: Handle) -> i32 {
    call("cuCtxDisablePeerAccess", |parts| {
        let (context, _) = parts.current()?;
        let peers = &mut parts.contexts.get_mut(context)?.peers;
        let place = peers.iter().position(|other| *other == peer).ok_or(Code::PEER_ACCESS_NOT_ENABLED)?;
        peers.swap_remove(place);
        Ok(())
    })
}
