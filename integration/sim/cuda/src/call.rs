//! What every CUDA call does first: it waits at the gate and meets the fault that a test has ordered for it.

use std::sync::MutexGuard;

use crate::codes::{Outcome, code_of};
use crate::driver::{Driver, Parts};
use crate::gate::Call;

/// A call inside the gate.
#[derive(Debug)]
pub struct Inside {
    /// The driver.
    pub driver: &'static Driver,
    /// The place inside; work that the call submits takes one of its own.
    pub place: Call<'static>,
}

impl Inside {
    /// The parts, for as long as nothing is waited for.
    pub fn parts(&self) -> MutexGuard<'static, Parts> {
        self.driver.parts()
    }
}

/// Makes a call that may wait for submitted work. `name` is that of the C function.
pub fn inside(name: &str, work: impl FnOnce(&Inside) -> Outcome) -> i32 {
    code_of(Driver::get().and_then(|driver| {
        let inside = Inside { driver, place: driver.gate.enter() };
        driver.meet_fault(name)?;
        driver.check_mps()?;
        work(&inside)
    }))
}

/// Makes a call that only works on the parts.
pub fn call(name: &str, work: impl FnOnce(&mut Parts) -> Outcome) -> i32 {
    inside(name, |inside| work(&mut inside.parts()))
}
