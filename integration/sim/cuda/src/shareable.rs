//! `cuMemExportToShareableHandle` and its opposite: memory by a handle of one process mapped in another, by file descriptor.
//!
//! The descriptor is that of a file without a name, which says what it stands for and cannot be written to:
//!
//! ```text
//! "BATONMEM" | key: u64 | UUID of the device, 16 bytes
//! ```

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::call::call;
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::ipc::Opened;
use crate::mapping::Mapping;
use crate::memory::{Block, Place};
use crate::physical::{enter, live};
use crate::properties::{DESCRIPTOR, Properties};
use crate::table::Handle;

const MAGIC: [u8; 8] = *b"BATONMEM";
const LENGTH: usize = 32;

/// Nobody changes what the descriptor says, however it is passed on.
const SEALS: i32 = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    key: u64,
    device: [u8; 16],
}

impl Content {
    fn to_file(self) -> io::Result<File> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is NUL-terminated; the kernel returns a new descriptor or -1.
        let raw = unsafe { libc::memfd_create(c"cuda-shareable-memory".as_ptr(), flags) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(raw) };
        file.write_all_at(&[&MAGIC[..], &self.key.to_le_bytes(), &self.device].concat(), 0)?;
        // SAFETY: plain numbers and an open descriptor.
        let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) };
        if sealed == 0 { Ok(file) } else { Err(io::Error::last_os_error()) }
    }

    /// What a descriptor of the program's says, if it is such a one.
    fn of(descriptor: i32) -> Option<Content> {
        let mut bytes = [0u8; LENGTH];
        // SAFETY: the place has that many bytes; a number that is no open descriptor is an error.
        let got = unsafe { libc::pread(descriptor, bytes.as_mut_ptr().cast(), LENGTH, 0) };
        let key = bytes[8..16].try_into().map(u64::from_le_bytes).ok()?;
        let device = bytes[16..].try_into().ok()?;
        (got == LENGTH as isize && bytes[..8] == MAGIC).then_some(Content { key, device })
    }
}

fn export(parts: &mut Parts, handle: Handle) -> Outcome<Content> {
    let physical = live(parts, handle)?;
    if physical.properties.handle_types & DESCRIPTOR == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let place = physical.block;
    let block = parts.memory.blocks.get(&place).ok_or(Code::UNKNOWN)?;
    let Place::Card { offset, .. } = block.place else { return Err(Code::ILLEGAL_STATE) };
    let slot = &parts.slots[block.slot];
    let own = || parts.session()?.export(slot.device(), offset);
    let key = block.opened.map_or_else(own, |opened| Ok(opened.key))?;
    let content = Content { key, device: slot.uuid() };
    if let Some(block) = parts.memory.blocks.get_mut(&place).filter(|block| block.opened.is_none()) {
        block.exported = Some(key);
    }
    Ok(content)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemExportToShareableHandle(
    descriptor: *mut c_void,
    handle: Handle,
    kind: u32,
    flags: u64,
) -> i32 {
    call("cuMemExportToShareableHandle", |parts| {
        if descriptor.is_null() || kind != DESCRIPTOR || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let file = export(parts, handle)?.to_file().map_err(|_| Code::OPERATING_SYSTEM)?;
        // SAFETY: not null, and the C caller gives a place for an int.
        unsafe { give(descriptor.cast(), file.into_raw_fd()) }
    })
}

/// The handle of memory of this process that is exported by that key.
fn own(parts: &Parts, key: u64) -> Option<Handle> {
    let is_it = |place: &u64| parts.memory.blocks.get(place).is_some_and(|block| block.exported == Some(key));
    parts.memory.physical.iter().find(|(_, physical)| is_it(&physical.block)).map(|(handle, _)| handle)
}

fn import(parts: &mut Parts, content: Content) -> Outcome<Handle> {
    if let Some(handle) = own(parts, content.key) {
        parts.memory.physical.get_mut(handle).ok_or(Code::UNKNOWN)?.references += 1;
        return Ok(handle);
    }
    let slot = parts.slots.iter().position(|slot| slot.uuid() == content.device).ok_or(Code::NOT_SUPPORTED)?;
    let properties = Properties::of_device(parts.device_of_slot(slot)?, DESCRIPTOR);
    let (range, memory) = parts.session()?.import(content.key)?;
    let mapping = Mapping::of_card(memory.as_fd(), range.offset, range.bytes).map_err(|_| Code::MAP_FAILED)?;
    let block = Block {
        context: None,
        slot,
        asked: range.bytes as usize,
        bytes: range.bytes,
        place: Place::Card { offset: range.offset, mapping: Arc::new(mapping) },
        exported: None,
        opened: Some(Opened::once(content.key)),
        pool: None,
        id: parts.memory.next_id(),
    };
    Ok(enter(parts, block, properties))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemImportFromShareableHandle(
    handle: *mut Handle,
    descriptor: *mut c_void,
    kind: u32,
) -> i32 {
    call("cuMemImportFromShareableHandle", |parts| {
        if handle.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        if kind != DESCRIPTOR {
            return Err(Code::NOT_SUPPORTED);
        }
        let descriptor = i32::try_from(descriptor as usize).ok();
        let content = descriptor.and_then(Content::of).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: not null, and the C caller gives a place for a CUmemGenericAllocationHandle.
        unsafe { give(handle, import(parts, content)?) }
    })
}

/// Whether the process has memory of another one by a descriptor.
pub fn is_guest(parts: &Parts) -> bool {
    parts.memory.blocks.values().any(|block| block.context.is_none() && block.opened.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_says_what_it_stands_for_and_cannot_be_changed() {
        let content = Content { key: 0x1234, device: [7; 16] };
        let file = content.to_file().expect("memory");
        assert_eq!(Content::of(file.as_raw_fd()), Some(content));
        assert!(file.write_all_at(&[0], 0).is_err());
        assert!(file.set_len(64).is_err());
        let other = File::open("/dev/zero").expect("it is there");
        assert_eq!([Content::of(other.as_raw_fd()), Content::of(-1)], [None, None]);
    }
}
