//! Memory by handles as a program of a test calls for it, with the structs of cuda.h.

use super::api::{Api, Handle};

/// What memory by handles is a multiple of.
pub const GRANULE: usize = 2 << 20;

/// Bytes that are different in each row of 251.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

/// `CUmemLocation`: type and id.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location(pub u32, pub i32);

impl Location {
    /// A device.
    pub fn device(id: i32) -> Location {
        Location(1, id)
    }
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    pub kind: u32,
    pub handle_types: u32,
    pub location: Location,
    pub windows: usize,
    pub compression: u8,
    pub direct_rdma: u8,
    pub usage: u16,
    pub reserved: [u8; 4],
}

impl Properties {
    /// Plain memory of a device that can be shared by descriptor.
    pub fn on(device: i32) -> Properties {
        Properties {
            kind: 1,
            handle_types: 1,
            location: Location::device(device),
            windows: 0,
            compression: 0,
            direct_rdma: 0,
            usage: 0,
            reserved: [0; 4],
        }
    }
}

/// `CUmulticastObjectProp`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GroupProperties {
    pub devices: u32,
    pub bytes: usize,
    pub handle_types: u64,
    pub flags: u64,
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Access(pub Location, pub u32);

impl Api {
    /// Memory of the first device.
    pub fn create(&self, bytes: usize) -> Handle {
        let (mut handle, properties) = (0, Properties::on(0));
        // SAFETY: a whole description, and a place for a handle.
        assert_eq!(unsafe { (self.memory_create)(&raw mut handle, bytes, &raw const properties, 0) }, 0, "cuMemCreate");
        handle
    }

    /// Addresses.
    pub fn reserve(&self, bytes: usize) -> u64 {
        let mut pointer = 0;
        // SAFETY: a place for a pointer.
        let code = unsafe { (self.address_reserve)(&raw mut pointer, bytes, 0, 0, 0) };
        assert_eq!(code, 0, "cuMemAddressReserve");
        pointer
    }

    /// Maps memory and lets the first device reach it.
    pub fn map(&self, pointer: u64, bytes: usize, handle: Handle) {
        // SAFETY: plain numbers.
        assert_eq!(unsafe { (self.memory_map)(pointer, bytes, 0, handle, 0) }, 0, "cuMemMap");
        assert_eq!(self.allow(pointer, bytes, &[Access(Location::device(0), 3)]), 0, "cuMemSetAccess");
    }

    /// Says who may reach it.
    pub fn allow(&self, pointer: u64, bytes: usize, wanted: &[Access]) -> i32 {
        // SAFETY: as many descriptions as are named.
        unsafe { (self.set_access)(pointer, bytes, wanted.as_ptr(), wanted.len()) }
    }

    /// What a device may do at a pointer, and the result.
    pub fn access(&self, pointer: u64, device: i32) -> (i32, u64) {
        let (mut flags, location) = (9, Location::device(device));
        // SAFETY: a whole description, and a place for the flags.
        (unsafe { (self.get_access)(&raw mut flags, &raw const location, pointer) }, flags)
    }

    /// One attribute of a pointer: as many bytes of a word as it has.
    pub fn told(&self, number: u32, pointer: u64) -> (i32, u64) {
        let mut word = 0u64;
        // SAFETY: no attribute that is asked for is longer than 8 bytes.
        (unsafe { (self.pointer_attribute)((&raw mut word).cast(), number, pointer) }, word)
    }
}
