//! Whether a context can still be used: after an illegal access it is broken for good, and every call says so.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::codes::{Code, Outcome};

/// Of one context, shared with its streams.
#[derive(Debug, Default)]
pub struct Health(AtomicI32);

impl Health {
    /// The error that broke the context.
    pub fn check(&self) -> Outcome {
        match self.0.load(Ordering::SeqCst) {
            0 => Ok(()),
            code => Err(Code(code)),
        }
    }

    /// Breaks it; the first error stays.
    pub fn fail(&self, code: Code) {
        let _ = self.0.compare_exchange(0, code.0, Ordering::SeqCst, Ordering::SeqCst);
    }
}
