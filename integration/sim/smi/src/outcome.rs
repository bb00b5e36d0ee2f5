//! How it ends: the exit codes of nvidia-smi(1), "RETURN VALUE".

/// An `nvmlReturn_t` that is not success.
pub type Code = u32;

/// `NVML_ERROR_INVALID_ARGUMENT`.
pub const INVALID_ARGUMENT: Code = 2;
/// `NVML_ERROR_NOT_SUPPORTED`.
pub const NOT_SUPPORTED: Code = 3;
/// `NVML_ERROR_NO_PERMISSION`.
pub const NO_PERMISSION: Code = 4;
/// `NVML_ERROR_NOT_FOUND`.
pub const NOT_FOUND: Code = 6;
/// `NVML_ERROR_DRIVER_NOT_LOADED`.
pub const DRIVER_NOT_LOADED: Code = 9;
/// `NVML_ERROR_LIBRARY_NOT_FOUND`.
pub const LIBRARY_NOT_FOUND: Code = 12;
/// `NVML_ERROR_IN_USE`.
pub const IN_USE: Code = 19;

/// What is said, and the exit code.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// For standard output, where the real one says it too.
    pub text: String,
    /// Of the process.
    pub exit: u8,
}

/// Whether all went well.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// With that code of NVML's. Those that nvidia-smi(1) does not list end as "other error".
    pub fn of(code: Code, text: impl Into<String>) -> Failure {
        let exit = u8::try_from(code).ok().filter(|code| *code <= 15).unwrap_or(255);
        Failure { text: format!("{}\n", text.into()), exit }
    }

    /// Of an option or value that is none.
    pub fn usage(text: impl Into<String>) -> Failure {
        Failure::of(INVALID_ARGUMENT, text)
    }

    /// Of a machine, or a selection, without cards.
    pub fn no_devices() -> Failure {
        Failure::of(NOT_FOUND, "No devices were found")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_end_as_the_manual_says() {
        assert_eq!(Failure::of(4, "").exit, 4);
        assert_eq!(Failure::of(15, "").exit, 15);
        assert_eq!(Failure::of(IN_USE, "").exit, 255);
        assert_eq!(Failure::of(999, "").exit, 255);
    }
}
