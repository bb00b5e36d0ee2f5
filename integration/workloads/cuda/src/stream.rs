//! Streams and events.

use crate::{Context, Result};

/// An order of work on a card; ended when dropped, after its work.
#[derive(Debug)]
pub struct Stream {
    context: Context,
    handle: usize,
}

impl Stream {
    /// A stream that does not wait for the context's default one (`CU_STREAM_NON_BLOCKING` in cuda.h).
    pub fn new(context: &Context) -> Result<Stream> {
        const NON_BLOCKING: u32 = 1;
        context.use_here()?;
        let mut handle = 0;
        // SAFETY: a place for a handle.
        unsafe { context.calls().stream_create(&raw mut handle, NON_BLOCKING) }?;
        Ok(Stream { context: context.clone(), handle })
    }

    pub(crate) fn handle(&self) -> usize {
        self.handle
    }

    /// Waits until all that it was given is done.
    pub fn synchronize(&self) -> Result<()> {
        self.context.use_here()?;
        // SAFETY: the handle is open.
        unsafe { self.context.calls().stream_synchronize(self.handle) }
    }

    /// What it is given from now on begins after the event.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.context.use_here()?;
        // SAFETY: both handles are open.
        unsafe { self.context.calls().stream_wait(self.handle, event.handle, 0) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.synchronize();
        // SAFETY: the handle is open, and not used again.
        let _ = unsafe { self.context.calls().stream_destroy(self.handle) };
    }
}

/// A place in a stream.
#[derive(Debug)]
pub struct Event {
    context: Context,
    handle: usize,
}

impl Event {
    /// An event that measures no time (`CU_EVENT_DISABLE_TIMING` in cuda.h).
    pub fn new(context: &Context) -> Result<Event> {
        const DISABLE_TIMING: u32 = 2;
        context.use_here()?;
        let mut handle = 0;
        // SAFETY: a place for a handle.
        unsafe { context.calls().event_create(&raw mut handle, DISABLE_TIMING) }?;
        Ok(Event { context: context.clone(), handle })
    }

    /// Marks what the stream was given until now.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        self.context.use_here()?;
        // SAFETY: both handles are open.
        unsafe { self.context.calls().event_record(self.handle, stream.handle) }
    }

    /// Waits until what it marks is done.
    pub fn synchronize(&self) -> Result<()> {
        self.context.use_here()?;
        // SAFETY: the handle is open.
        unsafe { self.context.calls().event_synchronize(self.handle) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and not used again.
        let _ = self.context.use_here().and_then(|()| unsafe { self.context.calls().event_destroy(self.handle) });
    }
}
