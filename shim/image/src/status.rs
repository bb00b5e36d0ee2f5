//! What containerd answered, as a fault.

use std::fmt;

use baton_fault::{Code, Fault};
use tonic::Status;

/// The fault for a refused call: `what` was attempted.
pub(crate) fn fault(what: impl fmt::Display, status: &Status) -> Fault {
    let message = status.message();
    if no_space(message) {
        return Fault::new(Code::NoSpace, what, message).advise("make room where containerd keeps its data");
    }
    // A transport that broke has no status of containerd's; its reason is hidden in the source.
    let cause = std::error::Error::source(status).map(innermost);
    let reason = match cause.filter(|cause| !message.contains(cause.as_str())) {
        Some(cause) => format!("{message}: {cause}"),
        None => message.to_owned(),
    };
    match status.code() {
        tonic::Code::NotFound => Fault::new(Code::NotFound, what, reason),
        tonic::Code::AlreadyExists => Fault::new(Code::Exists, what, reason),
        tonic::Code::FailedPrecondition => Fault::new(Code::State, what, reason),
        tonic::Code::InvalidArgument => Fault::new(Code::Usage, what, reason),
        tonic::Code::DeadlineExceeded => Fault::new(Code::Deadline, what, reason),
        _ => Fault::new(Code::Unavailable, what, reason).advise("see containerd's log"),
    }
}

/// Whether a message of containerd's tells of a full disk; it passes the kernel's text on and no code.
pub(crate) fn no_space(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("no space left on device") || message.contains("disk quota exceeded")
}

/// The last error of a chain: the one that names the cause.
pub(crate) fn innermost(err: &dyn std::error::Error) -> String {
    let mut last = err;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_by_its_text() {
        let status = Status::unknown("failed to write: write /var/lib/x: no space left on device");
        assert_eq!(fault("write blob", &status).code, Code::NoSpace);
    }

    #[test]
    fn codes_map_to_codes() {
        assert_eq!(fault("x", &Status::not_found("gone")).code, Code::NotFound);
        assert_eq!(fault("x", &Status::already_exists("there")).code, Code::Exists);
        assert_eq!(fault("x", &Status::unavailable("broken pipe")).code, Code::Unavailable);
    }
}
