//! Host memory that the card reaches by itself.

use std::ffi::c_void;

use crate::{Context, Result};

/// Pinned memory that the driver gave (`cuMemHostAlloc`), all zero at first.
#[derive(Debug)]
pub struct Pinned {
    context: Context,
    pointer: *mut u8,
    bytes: usize,
}

// SAFETY: it is memory of this process, owned by this value alone.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Takes that many bytes.
    pub fn take(context: &Context, bytes: usize) -> Result<Pinned> {
        context.use_here()?;
        let mut pointer = std::ptr::null_mut::<c_void>();
        // SAFETY: a place for a pointer; the memory that comes is ours and has that many bytes.
        unsafe {
            context.calls().host_allocate(&raw mut pointer, bytes, 0)?;
            pointer.cast::<u8>().write_bytes(0, bytes);
        }
        Ok(Pinned { context: context.clone(), pointer: pointer.cast(), bytes })
    }

    /// Where it lies.
    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Its bytes. Nothing on the card may be writing them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: valid for that length, and borrowed through this value alone.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the driver gave it for this.
        let _ = self.context.use_here().and_then(|()| unsafe { self.context.calls().host_free(self.pointer.cast()) });
    }
}

/// Memory of the program's own that was pinned afterwards (`cuMemHostRegister`).
#[derive(Debug)]
pub struct Registered {
    context: Context,
    memory: Box<[Page]>,
}

/// The driver pins whole pages.
#[derive(Debug, Clone, Copy)]
#[repr(align(4096))]
struct Page(#[expect(dead_code, reason = "read and written as bytes")] [u8; 4096]);

impl Registered {
    /// Allocates at least that many bytes, all zero, and pins them.
    pub fn take(context: &Context, bytes: usize) -> Result<Registered> {
        context.use_here()?;
        let mut memory = vec![Page([0; 4096]); bytes.div_ceil(4096)].into_boxed_slice();
        // SAFETY: the memory is there and stays until it is unregistered.
        unsafe { context.calls().host_register(memory.as_mut_ptr().cast(), memory.len() * 4096, 0) }?;
        Ok(Registered { context: context.clone(), memory })
    }

    /// Where it lies.
    pub fn pointer(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast()
    }

    /// Its bytes. Nothing on the card may be writing them.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: pages are plain bytes, one after the other.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.memory.len() * 4096) }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let pointer = self.memory.as_mut_ptr().cast();
        // SAFETY: it was registered for this.
        let _ = self.context.use_here().and_then(|()| unsafe { self.context.calls().host_unregister(pointer) });
    }
}
