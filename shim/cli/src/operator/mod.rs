//! The operator's verbs: what a person asks of Baton on a node.

use std::ffi::OsString;
use std::process::ExitCode;

use baton_fault::Result;

/// Runs the operator's verb `verb`; `None` when there is none of that name.
pub fn run(_verb: &str, _args: &[OsString]) -> Option<Result<ExitCode>> {
    None
}
