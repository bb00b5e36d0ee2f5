//! Reading options and values, whatever their order.

use std::ffi::OsString;
use std::path::PathBuf;

use baton_fault::{Code, Fault, Result};

/// The fault of a command line that does not parse.
pub fn usage(err: lexopt::Error) -> Fault {
    Fault::new(Code::Usage, "read the command line", err).advise("see `baton --help`")
}

/// The value that follows an option, as a path.
pub fn path(parser: &mut lexopt::Parser) -> Result<PathBuf> {
    parser.value().map(PathBuf::from).map_err(usage)
}

/// The value that follows an option, as text.
pub fn text(parser: &mut lexopt::Parser) -> Result<String> {
    string(parser.value().map_err(usage)?)
}

/// An argument that must be UTF-8.
pub fn string(value: OsString) -> Result<String> {
    value.into_string().map_err(|value| Fault::new(Code::Usage, format_args!("argument {value:?}"), "not UTF-8"))
}
