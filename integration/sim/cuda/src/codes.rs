//! `CUresult`. The numbers and their names are in `error_names`.

/// A result that is not success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i32);

/// The outcome of a driver call.
pub type Outcome<T = ()> = Result<T, Code>;

/// What a C caller gets.
pub fn code_of(outcome: Outcome) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(code) => code.0,
    }
}

/// Writes through a pointer that a C caller gave.
///
/// # Safety
///
/// `to` must be null or valid for a write.
pub unsafe fn give<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller of the C function promises that it may be written.
    unsafe { to.write(value) };
    Ok(())
}
