//! Faults that a test has ordered for a call of this process.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use baton_sim_wire::FaultAction;

use crate::codes::{Code, Outcome};
use crate::mapping::Mapping;

/// The page that the hardware shares: its first word is the number of faults that stand.
#[derive(Debug)]
pub struct FaultPage(Mapping);

impl FaultPage {
    /// Of a page that the hardware has given.
    pub fn of(page: Mapping) -> FaultPage {
        FaultPage(page)
    }

    /// Where its first word lies.
    pub fn address(&self) -> usize {
        self.0.at(0, 4).map_or(0, |word| word as usize)
    }

    /// Whether any fault stands.
    pub fn any(&self) -> bool {
        // SAFETY: the page is mapped for as long as `self` lives.
        unsafe { stands(self.address()) }
    }
}

/// Whether any fault stands, by the address of the page's first word; 0 for no page.
///
/// # Safety
///
/// The page must be mapped.
pub unsafe fn stands(address: usize) -> bool {
    if address == 0 {
        return false;
    }
    // SAFETY: an aligned word of a mapped page, which only the hardware writes to.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }.load(Ordering::Relaxed) > 0
}

/// Does what was ordered instead of the work, or before it.
pub fn suffer(action: Option<FaultAction>) -> Outcome {
    match action {
        None => Ok(()),
        Some(FaultAction::Error(code)) => Err(Code(code)),
        Some(FaultAction::Delay(milliseconds)) => {
            std::thread::sleep(Duration::from_millis(milliseconds));
            Ok(())
        }
        Some(FaultAction::Hang) => loop {
            // SAFETY: no preconditions. Signal handlers of the program still run.
            unsafe { libc::pause() };
        },
        Some(FaultAction::Crash) => std::process::abort(),
    }
}
