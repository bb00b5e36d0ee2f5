//! Device memory.

use crate::{Context, Result, Stream};

/// A piece of device memory; freed when dropped.
#[derive(Debug)]
pub struct DeviceMemory {
    context: Context,
    pointer: u64,
    bytes: usize,
}

impl DeviceMemory {
    /// Takes memory, with whatever is in it.
    pub fn take(context: &Context, bytes: usize) -> Result<DeviceMemory> {
        context.use_here()?;
        let mut pointer = 0;
        // SAFETY: a place for a device pointer.
        unsafe { context.calls().allocate(&raw mut pointer, bytes) }?;
        Ok(DeviceMemory { context: context.clone(), pointer, bytes })
    }

    /// Takes memory, all zero.
    pub fn zeroed(context: &Context, bytes: usize) -> Result<DeviceMemory> {
        let memory = DeviceMemory::take(context, bytes)?;
        memory.fill(0, bytes, 0)?;
        Ok(memory)
    }

    /// Takes managed memory, which the driver moves between card and host.
    pub fn managed(context: &Context, bytes: usize) -> Result<DeviceMemory> {
        /// `CU_MEM_ATTACH_GLOBAL` in cuda.h.
        const GLOBAL: u32 = 1;
        context.use_here()?;
        let mut pointer = 0;
        // SAFETY: a place for a device pointer.
        unsafe { context.calls().allocate_managed(&raw mut pointer, bytes, GLOBAL) }?;
        Ok(DeviceMemory { context: context.clone(), pointer, bytes })
    }

    /// Its device pointer.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    fn at(&self, offset: usize, bytes: usize) -> u64 {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "beyond a piece of device memory");
        self.pointer + offset as u64
    }

    /// Sets bytes from `offset` on.
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> Result<()> {
        self.context.use_here()?;
        // SAFETY: the range lies in this piece.
        unsafe { self.context.calls().set(self.at(offset, bytes), value, bytes) }
    }

    /// Copies to the card.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.context.use_here()?;
        // SAFETY: the source is a slice of that length; the target lies in this piece.
        unsafe { self.context.calls().to_device(self.at(offset, from.len()), from.as_ptr().cast(), from.len()) }
    }

    /// Copies from the card.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.context.use_here()?;
        // SAFETY: the target is a slice of that length; the source lies in this piece.
        unsafe { self.context.calls().to_host(to.as_mut_ptr().cast(), self.at(offset, to.len()), to.len()) }
    }

    /// The number of 64 bits at `offset`.
    pub fn word(&self, offset: usize) -> Result<u64> {
        let mut bytes = [0u8; 8];
        self.read(offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Has a stream copy to the card.
    ///
    /// # Safety
    ///
    /// `from` must be valid for this piece's length, unchanged, until the stream has done it.
    pub unsafe fn write_on(&self, stream: &Stream, from: *const u8) -> Result<()> {
        self.context.use_here()?;
        // SAFETY: as the caller promises.
        unsafe { self.context.calls().to_device_async(self.pointer, from.cast(), self.bytes, stream.handle()) }
    }

    /// Has a stream copy from the card.
    ///
    /// # Safety
    ///
    /// `to` must be valid for this piece's length, and left alone, until the stream has done it.
    pub unsafe fn read_on(&self, stream: &Stream, to: *mut u8) -> Result<()> {
        self.context.use_here()?;
        // SAFETY: as the caller promises.
        unsafe { self.context.calls().to_host_async(to.cast(), self.pointer, self.bytes, stream.handle()) }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: it was taken for this, and work on it is the program's business as in C.
        let _ = self.context.use_here().and_then(|()| unsafe { self.context.calls().free(self.pointer) });
    }
}
