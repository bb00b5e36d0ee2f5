//! What `integration/sim/FIDELITY.md` says of the real driver, found out through the C API.

pub mod kernels;
pub mod maps;
pub mod memory;
pub mod states;

use std::time::{Duration, Instant};

use baton_cuda::Result as Answer;

use crate::check::{Notes, Verdict, demand};

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
