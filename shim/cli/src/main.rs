//! `baton`: an OCI runtime command line with runc's arguments, and the operator's verbs.

/// Writes a line to standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::report::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to standard output as it is.
macro_rules! say_text {
    ($($text:tt)*) => { $crate::report::out(format_args!($($text)*)) };
}

mod arguments;
mod globals;
mod oci;
mod operator;
mod options;
mod report;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use baton_fault::{Code, Fault, Result};

use crate::globals::Globals;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (globals, rest) = match Globals::parse(&args) {
        Ok(parsed) => parsed,
        Err(fault) => return report::failure(&Globals::default(), &fault, None),
    };
    let status = rest.first().and_then(|verb| oci::failure_status(&verb.to_string_lossy()));
    match dispatch(&globals, rest) {
        Ok(code) => code,
        Err(fault) => report::failure(&globals, &fault, status),
    }
}

fn dispatch(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    if globals.version {
        say_text!("{}", usage::version());
        return Ok(ExitCode::SUCCESS);
    }
    let Some((verb, rest)) = args.split_first() else {
        return match globals.help {
            true => help(),
            false => Err(Fault::new(Code::Usage, "read the command line", "no verb").advise("see `baton --help`")),
        };
    };
    if globals.help || verb == "help" {
        return help();
    }
    let verb = verb.to_string_lossy();
    oci::run(globals, &verb, rest).or_else(|| operator::run(&verb, rest)).unwrap_or_else(|| {
        Err(Fault::new(Code::Usage, format_args!("verb {verb:?}"), "there is none of that name")
            .advise("see `baton --help`"))
    })
}

fn help() -> Result<ExitCode> {
    say_text!("{}", usage::HELP);
    Ok(ExitCode::SUCCESS)
}
