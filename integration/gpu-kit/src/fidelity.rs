//! What `integration/sim/FIDELITY.md` says of the real driver, found out through the C API.

pub mod kernels;
pub mod maps;
pub mod memory;
pub mod mig;
pub mod mps;
pub mod states;

use std::time::{Duration, Instant};

use baton_cuda::{Driver, Result as Answer};

use crate::asked::Asked;
use crate::check::{Notes, Verdict, demand};
use crate::target::Target;

/// For locks that find nothing to wait for, in milliseconds.
const LOCK_MS: u32 = 10_000;

/// The call is refused with one of these codes.
fn refused<T: std::fmt::Debug>(what: &str, answer: Answer<T>, codes: &[i32]) -> Verdict {
    match &answer {
        Err(error) => match error.code() {
            Some(code) => demand(codes.contains(&code), || format!("{what}: {error}, not one of {codes:?}")),
            None => Err(error.clone().into()),
        },
        Ok(value) => demand(false, || format!("{what}: {value:?}, not one of {codes:?}")),
    }
}

/// Makes a call and notes how long it took.
fn timed<T>(notes: &mut Notes, what: &str, call: impl FnOnce() -> Answer<T>) -> Answer<T> {
    let begun = Instant::now();
    let answer = call()?;
    notes.note(format!("{what}: {}", milliseconds(begun.elapsed())));
    Ok(answer)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// The checkpoint of a locked process is refused with that code, and it goes on once it is unlocked.
fn checkpoint_is_refused(notes: &mut Notes, driver: &Driver, target: &Target, code: i32) -> Verdict {
    let answer = driver.checkpoint_process(target.pid());
    let state = driver.process_state(target.pid());
    notes.note(format!("checkpoint {answer:?}, afterwards {state:?}"));
    refused("checkpoint", answer, &[code])?;
    driver.unlock_process(target.pid())?;
    target.goes_on()?;
    Ok(())
}
