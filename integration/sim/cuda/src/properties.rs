//! What a program says of memory that it asks for by handle, and of who may reach it: the structs of cuda.h.

use std::mem::offset_of;

use crate::codes::{Code, Outcome};
use crate::driver::Parts;

/// `CU_MEM_ALLOCATION_TYPE_PINNED`, the only type that is to be had here (CUDA 13.0 has added managed memory).
const PINNED: u32 = 1;

/// `CU_MEM_LOCATION_TYPE_DEVICE` and `_HOST_NUMA`.
const DEVICE: u32 = 1;
const HOST_NUMA: u32 = 3;

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub const DESCRIPTOR: u32 = 1;

/// All of `CUmemAllocationHandleType`: descriptors, two of Windows, fabric.
const HANDLE_TYPES: u32 = 15;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    kind: u32,
    id: i32,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    kind: u32,
    /// `requestedHandleTypes`.
    pub handle_types: u32,
    location: Location,
    windows: usize,
    compression: u8,
    direct_rdma: u8,
    usage: u16,
    reserved: [u8; 4],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    location: Location,
    flags: u32,
}

// As `cuda.h` of CUDA 12.9 and 13.5 lays it out.
const _: () = {
    assert!(size_of::<Location>() == 8 && offset_of!(Location, kind) == 0 && offset_of!(Location, id) == 4);
    assert!(size_of::<Properties>() == 32 && offset_of!(Properties, kind) == 0);
    assert!(offset_of!(Properties, handle_types) == 4 && offset_of!(Properties, location) == 8);
    assert!(offset_of!(Properties, windows) == 16 && offset_of!(Properties, compression) == 24);
    assert!(offset_of!(Properties, direct_rdma) == 25 && offset_of!(Properties, usage) == 26);
    assert!(offset_of!(Properties, reserved) == 28);
    assert!(size_of::<Access>() == 12 && offset_of!(Access, location) == 0 && offset_of!(Access, flags) == 8);
};

impl Location {
    /// The slot of a device; anything else reaches no memory of a card.
    pub fn slot(self, parts: &Parts) -> Outcome<usize> {
        if self.kind == DEVICE { parts.slot_of_device(self.id) } else { Err(Code::INVALID_VALUE) }
    }
}

impl Properties {
    /// Those of plain memory of a device.
    pub fn of_device(device: i32, handle_types: u32) -> Properties {
        let location = Location { kind: DEVICE, id: device };
        Properties {
            kind: PINNED,
            handle_types,
            location,
            windows: 0,
            compression: 0,
            direct_rdma: 0,
            usage: 0,
            reserved: [0; 4],
        }
    }

    /// The slot on which such memory is to be had. Memory of a NUMA node is not, nor is sharing but by descriptor, nor the
    /// uses that cuda.h names beside plain memory: the attributes of the devices say so too.
    pub fn slot(&self, parts: &Parts) -> Outcome<usize> {
        if self.kind != PINNED || self.windows != 0 || self.handle_types & !HANDLE_TYPES != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if self.location.kind == HOST_NUMA || self.handle_types & !DESCRIPTOR != 0 || self.usage != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        self.location.slot(parts)
    }

    /// What such memory turns out to be: compression is a hint, and none is compressed.
    pub fn as_made(self) -> Properties {
        Properties { compression: 0, ..self }
    }
}

impl Access {
    /// The slot, and `CUmemAccess_flags`: none, read, read and write.
    pub fn checked(&self, parts: &Parts) -> Outcome<(usize, u32)> {
        let slot = self.location.slot(parts)?;
        if [0, 1, 3].contains(&self.flags) { Ok((slot, self.flags)) } else { Err(Code::INVALID_VALUE) }
    }
}
