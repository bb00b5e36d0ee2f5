//! A card's primary context in this process.

use std::sync::Arc;

use crate::{Card, Kernels, Result};

/// The primary context of a card; given back with the last copy of this.
#[derive(Debug, Clone)]
pub struct Context {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    card: Card,
    handle: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: it was retained once for this.
        let _ = unsafe { self.card.driver.calls.release(self.card.ordinal) };
    }
}

impl Context {
    pub(crate) fn of(card: Card) -> Result<Context> {
        let mut handle = 0;
        // SAFETY: a place for a handle.
        unsafe { card.driver.calls.retain(&raw mut handle, card.ordinal) }?;
        let context = Context { held: Arc::new(Held { card, handle }) };
        context.use_here()?;
        Ok(context)
    }

    /// Its card.
    pub fn card(&self) -> Card {
        self.held.card
    }

    pub(crate) fn calls(&self) -> &'static crate::calls::Calls {
        &self.held.card.driver.calls
    }

    /// Makes it the calling thread's.
    pub fn use_here(&self) -> Result<()> {
        // SAFETY: the driver gave the handle, and it is retained.
        unsafe { self.calls().set_current(self.held.handle) }
    }

    /// Waits for all its work.
    pub fn synchronize(&self) -> Result<()> {
        self.use_here()?;
        // SAFETY: no arguments.
        unsafe { self.calls().synchronize() }
    }

    /// Bytes of the card's memory that are free, and all.
    pub fn room(&self) -> Result<(u64, u64)> {
        self.use_here()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: two places for sizes.
        unsafe { self.calls().memory_info(&raw mut free, &raw mut total) }?;
        Ok((free as u64, total as u64))
    }

    /// The kernels, compiled for its card.
    pub fn kernels(&self) -> Result<Kernels> {
        Kernels::load(self)
    }
}
