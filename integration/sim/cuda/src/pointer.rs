//! `cuPointerGetAttribute…`: what is known of a pointer.

use std::ffi::c_void;

use crate::call::call;
use crate::codes::{Code, Outcome, give};
use crate::driver::Parts;
use crate::memory::Pinning;
use crate::table::Handle;

/// `CU_MEMORYTYPE_HOST` and `_DEVICE`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// `CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE`, with the numbers of `CUmemAccess_flags`.
const READ_WRITE: u32 = 3;

/// What the attributes tell of.
#[derive(Debug, Clone, Copy)]
struct Facts {
    context: Handle,
    device: i32,
    memory: u32,
    managed: bool,
    /// All of the allocation or of the reserved range.
    start: u64,
    bytes: usize,
    /// What is mapped in one piece.
    mapping: (u64, usize),
    /// Of the allocation or mapping, and of the memory behind it.
    id: u64,
    memory_id: u64,
    pool: Option<Handle>,
    /// `CUmemAllocationHandleType` that it can be shared by.
    handle_types: u32,
    /// Whether `cuIpcGetMemHandle` takes it.
    is_ipc_capable: bool,
    /// `CUmemAccess_flags` of the calling thread's device.
    access: u32,
}

/// What is known of memory that is mapped by a handle.
fn mapped(parts: &Parts, pointer: u64) -> Option<Facts> {
    let (at, mapped) = parts.memory.reservations.mapping(pointer)?;
    let (start, bytes) = parts.memory.reservations.range(pointer)?;
    let physical = parts.memory.physical.get(mapped.memory)?;
    let block = parts.memory.blocks.get(&physical.block)?;
    Some(Facts {
        context: 0,
        device: parts.device_of_slot(block.slot).unwrap_or(-1),
        memory: DEVICE,
        managed: false,
        start,
        bytes: bytes as usize,
        mapping: (at, mapped.bytes as usize),
        id: mapped.id,
        memory_id: block.id,
        pool: None,
        handle_types: physical.properties.handle_types,
        is_ipc_capable: false,
        access: parts.current().map_or(0, |(_, slot)| mapped.access(slot)),
    })
}

fn facts(parts: &Parts, pointer: u64) -> Option<Facts> {
    let device =
        |context| parts.contexts.get(context).and_then(|context| parts.device_of_slot(context.slot)).unwrap_or(-1);
    if let Some((start, block)) = parts.memory.block(pointer) {
        return Some(Facts {
            context: block.context.unwrap_or(0),
            device: parts.device_of_slot(block.slot).unwrap_or(-1),
            memory: DEVICE,
            managed: false,
            start,
            bytes: block.asked,
            mapping: (start, block.asked),
            id: block.id,
            memory_id: block.id,
            pool: block.pool,
            handle_types: 0,
            is_ipc_capable: block.opened.is_none() && block.pool.is_none(),
            access: READ_WRITE,
        });
    }
    if let Some(facts) = mapped(parts, pointer) {
        return Some(facts);
    }
    let (start, pinned) = parts.memory.host(pointer)?;
    let managed = matches!(pinned.pinning, Pinning::Managed(_));
    Some(Facts {
        context: pinned.context,
        device: device(pinned.context),
        memory: if managed { DEVICE } else { HOST },
        managed,
        start,
        bytes: pinned.bytes,
        mapping: (start, pinned.bytes),
        id: pinned.id,
        memory_id: pinned.id,
        pool: None,
        handle_types: 0,
        is_ipc_capable: false,
        access: READ_WRITE,
    })
}

/// Writes one attribute, `CUpointer_attribute` of cuda.h.
///
/// # Safety
///
/// `to` must be null or a place for that attribute.
unsafe fn tell(facts: &Facts, number: u32, pointer: u64, to: *mut c_void) -> Outcome {
    let is_host = facts.memory == HOST || facts.managed;
    // SAFETY: promised by the caller; the type of each is that of cuda.h.
    unsafe {
        match number {
            1 => give(to.cast(), facts.context),
            2 => give(to.cast(), facts.memory),
            3 => give(to.cast(), pointer),
            4 if is_host => give(to.cast(), pointer),
            6 => give(to.cast(), 0u8),
            7 => give(to.cast(), facts.id),
            8 => give(to.cast(), u8::from(facts.managed)),
            9 => give(to.cast(), facts.device),
            10 => give(to.cast(), u8::from(facts.is_ipc_capable)),
            11 => give(to.cast(), facts.start),
            12 => give(to.cast(), facts.bytes),
            13 => give(to.cast(), 1u8),
            14 => give(to.cast(), facts.handle_types),
            15 | 21 => give(to.cast(), 0u8),
            16 => give(to.cast(), facts.access),
            17 => give(to.cast(), facts.pool.unwrap_or(0)),
            18 => give(to.cast(), facts.mapping.1),
            19 => give(to.cast(), facts.mapping.0),
            20 => give(to.cast(), facts.memory_id),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(data: *mut c_void, number: u32, pointer: u64) -> i32 {
    call("cuPointerGetAttribute", |parts| {
        parts.current()?;
        let facts = facts(parts, pointer).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the C caller gives a place for that attribute.
        unsafe { tell(&facts, number, pointer, data) }
    })
}

/// The value that stands for "not a pointer of CUDA's", as wide as the attribute.
///
/// # Safety
///
/// `to` must be null or a place for that attribute.
unsafe fn tell_nothing(number: u32, to: *mut c_void) -> Outcome {
    // SAFETY: promised by the caller.
    unsafe {
        match number {
            2 | 14 | 16 => give(to.cast(), 0u32),
            // CU_DEVICE_INVALID.
            9 => give(to.cast(), -2i32),
            6 | 8 | 10 | 13 | 15 | 21 => give(to.cast(), 0u8),
            1..=21 => give(to.cast(), 0u64),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttributes(
    count: u32,
    numbers: *const u32,
    data: *const *mut c_void,
    pointer: u64,
) -> i32 {
    call("cuPointerGetAttributes", |parts| {
        parts.current()?;
        if numbers.is_null() || data.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let facts = facts(parts, pointer);
        for index in 0..count as usize {
            // SAFETY: the C caller gives as many attributes and places as it says.
            unsafe {
                let (number, to) = (numbers.add(index).read(), data.add(index).read());
                match &facts {
                    // An attribute that this kind of memory lacks is told as nothing.
                    Some(facts) => tell(facts, number, pointer, to).or_else(|_| tell_nothing(number, to))?,
                    None => tell_nothing(number, to)?,
                }
            }
        }
        Ok(())
    })
}

/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`: copies without a stream wait for their work anyway.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerSetAttribute(value: *const c_void, number: u32, pointer: u64) -> i32 {
    call("cuPointerSetAttribute", |parts| {
        facts(parts, pointer).filter(|_| number == 6 && !value.is_null()).map(drop).ok_or(Code::INVALID_VALUE)
    })
}
