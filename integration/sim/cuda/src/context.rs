//! `cuCtx…` and primary contexts.

use std::cell::RefCell;

use crate::codes::{Code, Outcome, code_of, give};
use crate::driver::{Driver, Parts, call};

/// A `CUcontext`: not an address, never dereferenced.
pub type Handle = usize;

/// Handles start here and go up in steps, so that small numbers are no contexts.
const FIRST: Handle = 0x00c0_0000;
const STEP: Handle = 0x1000;

/// One context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Its card.
    pub slot: usize,
    /// How often a primary context is retained; `None` for one made by `cuCtxCreate`.
    retained: Option<u32>,
}

/// All contexts of the process, those gone as `None`.
#[derive(Debug, Default)]
pub struct Contexts {
    all: Vec<Option<Context>>,
}

impl Contexts {
    fn enter(&mut self, context: Context) -> Handle {
        self.all.push(Some(context));
        FIRST + (self.all.len() - 1) * STEP
    }

    fn place(&mut self, handle: Handle) -> Outcome<&mut Option<Context>> {
        let offset = handle.checked_sub(FIRST).filter(|offset| offset % STEP == 0).ok_or(Code::INVALID_CONTEXT)?;
        self.all.get_mut(offset / STEP).filter(|context| context.is_some()).ok_or(Code::INVALID_CONTEXT)
    }

    fn primary(&mut self, slot: usize) -> Option<(Handle, &mut Context)> {
        self.all.iter_mut().enumerate().find_map(|(index, context)| match context {
            Some(context) if context.slot == slot && context.retained.is_some() => {
                Some((FIRST + index * STEP, context))
            }
            _ => None,
        })
    }

    /// The slot of each living context.
    pub fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        self.all.iter().flatten().map(|context| context.slot)
    }
}

thread_local! {
    static STACK: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

fn current() -> Option<Handle> {
    STACK.with_borrow(|stack| stack.last().copied()).filter(|handle| *handle != 0)
}

/// The slot of the calling thread's context.
pub fn current_slot(parts: &mut Parts) -> Outcome<usize> {
    let handle = current().ok_or(Code::INVALID_CONTEXT)?;
    parts.contexts.place(handle)?.as_ref().map(|context| context.slot).ok_or(Code::INVALID_CONTEXT)
}

fn make(parts: &mut Parts, slot: usize, retained: Option<u32>) -> Outcome<Handle> {
    parts.session()?.context(&parts.slots[slot].card)?;
    Ok(parts.contexts.enter(Context { slot, retained }))
}

fn end(parts: &mut Parts, handle: Handle) -> Outcome {
    let context = parts.contexts.place(handle)?.take().ok_or(Code::INVALID_CONTEXT)?;
    parts.session()?.context_gone(&parts.slots[context.slot].card)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: i32) -> i32 {
    call(|parts| {
        let slot = parts.slot_of_device(device)?;
        let found = parts.contexts.primary(slot).map(|(handle, context)| {
            context.retained = context.retained.map(|count| count + 1);
            handle
        });
        let handle = match found {
            Some(handle) => handle,
            None => make(parts, slot, Some(1))?,
        };
        // SAFETY: the C caller gives a place for a CUcontext.
        unsafe { give(context, handle) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> i32 {
    call(|parts| {
        let slot = parts.slot_of_device(device)?;
        let (handle, context) = parts.contexts.primary(slot).ok_or(Code::INVALID_CONTEXT)?;
        let left = context.retained.map_or(0, |count| count - 1);
        context.retained = Some(left);
        if left == 0 { end(parts, handle) } else { Ok(()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxCreate_v2(context: *mut Handle, _flags: u32, device: i32) -> i32 {
    call(|parts| {
        let slot = parts.slot_of_device(device)?;
        let handle = make(parts, slot, None)?;
        STACK.with_borrow_mut(|stack| stack.push(handle));
        // SAFETY: the C caller gives a place for a CUcontext.
        unsafe { give(context, handle) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxDestroy_v2(handle: Handle) -> i32 {
    call(|parts| {
        end(parts, handle)?;
        STACK.with_borrow_mut(|stack| stack.retain(|other| *other != handle));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(handle: Handle) -> i32 {
    call(|parts| {
        if handle != 0 {
            parts.contexts.place(handle)?;
        }
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            stack.push(handle);
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(handle: *mut Handle) -> i32 {
    // SAFETY: the C caller gives a place for a CUcontext.
    code_of(Driver::get().and_then(|_| unsafe { give(handle, current().unwrap_or(0)) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(handle: Handle) -> i32 {
    call(|parts| {
        parts.contexts.place(handle)?;
        STACK.with_borrow_mut(|stack| stack.push(handle));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPopCurrent_v2(handle: *mut Handle) -> i32 {
    let popped = STACK.with_borrow_mut(Vec::pop);
    if handle.is_null() {
        return popped.map_or(Code::INVALID_CONTEXT.0, |_| 0);
    }
    // SAFETY: the C caller gives a place for a CUcontext.
    code_of(popped.ok_or(Code::INVALID_CONTEXT).and_then(|popped| unsafe { give(handle, popped) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetDevice(device: *mut i32) -> i32 {
    call(|parts| {
        let slot = current_slot(parts)?;
        let index = parts.shown.iter().position(|shown| *shown == slot).ok_or(Code::INVALID_CONTEXT)?;
        // SAFETY: the C caller gives a place for a CUdevice.
        unsafe { give(device, index as i32) }
    })
}

/// Everything is done when a call returns, so there is nothing to wait for but the gate.
#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> i32 {
    call(|parts| current_slot(parts).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(_stream: usize) -> i32 {
    call(|parts| current_slot(parts).map(|_| ()))
}
