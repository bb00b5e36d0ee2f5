//! `cuIpc…`: memory of one process opened in another. Events cannot be shared so here.
//!
//! ```text
//! CUipcMemHandle, 64 bytes: "BATONIPC" | key: u64 | bytes asked for: u64 | UUID of the device, 16 bytes | token: u64 | zeroes
//! ```
//!
//! The token goes on naming the allocation when its key has changed with a checkpoint.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::call::{call, inside};
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::mapping::Mapping;
use crate::memory::{Block, Place};
use crate::stream::wait_for;
use crate::table::Handle;

const MAGIC: [u8; 8] = *b"BATONIPC";

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the only flags there are.
const LAZY_PEER_ACCESS: u32 = 1;

/// `CUipcMemHandle`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MemoryHandle([u8; 64]);

/// What was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// What the hardware knows it by now.
    pub key: u64,
    /// What its owner's job knows it by.
    pub token: u64,
    count: u32,
}

impl Opened {
    /// Opened once, by a key of no job's.
    pub fn once(key: u64) -> Opened {
        Opened { key, token: key, count: 1 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    key: u64,
    asked: u64,
    device: [u8; 16],
    token: u64,
}

impl Content {
    fn handle(self) -> MemoryHandle {
        let mut bytes = [0u8; 64];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.asked.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.device);
        bytes[40..48].copy_from_slice(&self.token.to_le_bytes());
        MemoryHandle(bytes)
    }

    fn of(handle: &MemoryHandle) -> Option<Content> {
        let word = |at: usize| handle.0[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let device = handle.0[24..40].try_into().ok()?;
        let content = Content { key: word(8)?, asked: word(16)?, device, token: word(40)? };
        (handle.0[..8] == MAGIC && handle.0[48..] == [0; 16]).then_some(content)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuIpcGetMemHandle(handle: *mut MemoryHandle, pointer: u64) -> i32 {
    call("cuIpcGetMemHandle", |parts| {
        parts.current()?;
        let (start, block) = parts.memory.block(pointer).ok_or(Code::INVALID_VALUE)?;
        let Place::Card { offset, .. } = block.place else { return Err(Code::ILLEGAL_STATE) };
        if block.opened.is_some() || block.pool.is_some() {
            return Err(Code::INVALID_VALUE);
        }
        let (slot, asked, token) = (&parts.slots[block.slot], block.asked as u64, block.exported);
        let key = parts.session()?.export(slot.device(), offset)?;
        let token = token.unwrap_or(key);
        let content = Content { key, asked, device: slot.uuid(), token };
        if let Some(block) = parts.memory.blocks.get_mut(&start) {
            block.exported = Some(token);
        }
        // SAFETY: the C caller gives a place for a CUipcMemHandle.
        unsafe { give(handle, content.handle()) }
    })
}

fn open(parts: &mut Parts, content: Content) -> Outcome<u64> {
    let (context, _) = parts.current()?;
    let own = |block: &Block| block.exported == Some(content.token);
    if parts.memory.blocks.values().any(own) {
        // Not in the process that it comes from.
        return Err(Code::INVALID_CONTEXT);
    }
    let same = |block: &Block| {
        block.context == Some(context) && block.opened.is_some_and(|opened| opened.token == content.token)
    };
    if let Some((pointer, block)) = parts.memory.blocks.iter_mut().find(|(_, block)| same(block)) {
        block.opened = block.opened.map(|opened| Opened { count: opened.count + 1, ..opened });
        return Ok(*pointer);
    }
    let slot = parts.slots.iter().position(|slot| slot.uuid() == content.device).ok_or(Code::MAP_FAILED)?;
    let (range, memory) = parts.session()?.import(content.key)?;
    let mapping = Mapping::of_card(memory.as_fd(), range.offset, range.bytes).map_err(|_| Code::MAP_FAILED)?;
    let id = parts.memory.next_id();
    Ok(parts.memory.enter(Block {
        context: Some(context),
        slot,
        asked: content.asked as usize,
        bytes: range.bytes,
        place: Place::Card { offset: range.offset, mapping: Arc::new(mapping) },
        exported: None,
        opened: Some(Opened { key: content.key, token: content.token, count: 1 }),
        pool: None,
        id,
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuIpcOpenMemHandle_v2(pointer: *mut u64, handle: MemoryHandle, flags: u32) -> i32 {
    call("cuIpcOpenMemHandle_v2", |parts| {
        if pointer.is_null() || flags != LAZY_PEER_ACCESS {
            return Err(Code::INVALID_VALUE);
        }
        let content = Content::of(&handle).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the C caller gives a place for a CUdeviceptr.
        unsafe { give(pointer, open(parts, content)?) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuIpcCloseMemHandle(pointer: u64) -> i32 {
    inside("cuIpcCloseMemHandle", |inside| {
        let mut parts = inside.parts();
        let block = parts.memory.blocks.get_mut(&pointer).ok_or(Code::INVALID_VALUE)?;
        let opened = block.opened.ok_or(Code::INVALID_VALUE)?;
        if opened.count > 1 {
            block.opened = Some(Opened { count: opened.count - 1, ..opened });
            return Ok(());
        }
        let context = block.context.ok_or(Code::INVALID_VALUE)?;
        let work = parts.work_of(context);
        drop(parts);
        wait_for(&work);
        let mut parts = inside.parts();
        parts.memory.blocks.remove(&pointer).ok_or(Code::INVALID_VALUE)?;
        parts.session()?.import_gone(opened.key)
    })
}

/// `CUipcEventHandle`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct EventHandle([u8; 64]);

#[unsafe(no_mangle)]
pub extern "C" fn cuIpcGetEventHandle(_handle: *mut EventHandle, event: Handle) -> i32 {
    call("cuIpcGetEventHandle", |parts| {
        parts.events.get(event).ok_or(Code::INVALID_HANDLE)?;
        Err(Code::NOT_SUPPORTED)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuIpcOpenEventHandle(_event: *mut Handle, _handle: EventHandle) -> i32 {
    call("cuIpcOpenEventHandle", |_| Err(Code::NOT_SUPPORTED))
}

/// Whether the process has anything that other processes open so, or has opened something of theirs.
pub fn is_shared(parts: &Parts) -> bool {
    let mut blocks = parts.memory.blocks.values().filter(|block| block.context.is_some());
    blocks.any(|block| block.exported.is_some() || block.opened.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_carries_what_it_takes_to_open_it() {
        let content = Content { key: 0x1234, asked: 5000, device: [7; 16], token: 9 };
        let handle = content.handle();
        assert_eq!(Content::of(&handle), Some(content));
        for (at, byte) in [(0, b'b'), (63, 1), (48, 1)] {
            let mut other = handle;
            other.0[at] = byte;
            assert_eq!(Content::of(&other), None, "byte {at}");
        }
        assert_eq!(Content::of(&MemoryHandle([0; 64])), None);
    }
}
