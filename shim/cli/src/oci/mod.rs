//! The OCI runtime's verbs: from runc's arguments to one call of the engine, and from its answer to runc's output.

mod checkpoint;
mod create;
mod exec;
mod look;
mod spec;
mod update;

use std::ffi::OsString;
use std::process::ExitCode;

use baton_engine::Signal;
use baton_fault::{Code, Fault, Result};
use serde::Serialize;

use crate::globals::Globals;
use crate::options::{Options, Words, switch};

/// Exit status of `exec` when its program did not run, as runc's.
const EXEC_FAILED: u8 = 255;

/// Runs the verb; `None` when it is not one of an OCI runtime.
pub fn run(globals: &Globals, verb: &str, args: &[OsString]) -> Option<Result<ExitCode>> {
    Some(match verb {
        "create" => create::create(globals, args),
        "run" => create::run(globals, args),
        "start" => only_id(verb, args).and_then(|id| globals.engine().start(&id)).map(done),
        "state" => only_id(verb, args).and_then(|id| print_pretty(&globals.engine().state(&id)?, "  ")),
        "pause" => only_id(verb, args).and_then(|id| globals.engine().pause(&id)).map(done),
        "resume" => only_id(verb, args).and_then(|id| globals.engine().resume(&id)).map(done),
        "kill" => kill(globals, args),
        "delete" => delete(globals, args),
        "exec" => exec::exec(globals, args),
        "ps" => look::ps(globals, args),
        "list" => look::list(globals, args),
        "events" => look::events(globals, args),
        "features" => look::features(args),
        "spec" => spec::spec(args),
        "update" => update::update(globals, args),
        "checkpoint" => checkpoint::checkpoint(globals, args),
        "restore" => checkpoint::restore(globals, args),
        _ => return None,
    })
}

/// The exit status of a verb that failed; `None` when it is not one of an OCI runtime.
pub fn failure_status(verb: &str) -> Option<u8> {
    match verb {
        "exec" => Some(EXEC_FAILED),
        "create" | "run" | "start" | "state" | "pause" | "resume" | "kill" | "delete" | "ps" | "list" | "events"
        | "features" | "spec" | "update" | "checkpoint" | "restore" => Some(1),
        _ => None,
    }
}

fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

fn exit(code: Option<i32>) -> ExitCode {
    ExitCode::from(u8::try_from(code.unwrap_or(0)).unwrap_or(u8::MAX))
}

fn only_id(verb: &str, args: &[OsString]) -> Result<String> {
    Options::read(verb, args, &[], Words::Mixed)?.id()
}

/// JSON as runc prints it for people.
fn print_pretty<T: Serialize>(value: &T, indent: &str) -> Result<ExitCode> {
    let mut text = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    let mut writer = serde_json::Serializer::with_formatter(&mut text, form);
    value.serialize(&mut writer).map_err(not_written)?;
    say!("{}", String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}

/// JSON as runc prints it for programs: one line.
fn print_line<T: Serialize>(value: &T) -> Result<ExitCode> {
    say!("{}", serde_json::to_string(value).map_err(not_written)?);
    Ok(ExitCode::SUCCESS)
}

fn not_written(err: serde_json::Error) -> Fault {
    Fault::new(Code::System, "write JSON to the standard output", err)
}

fn kill(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    let mut options = Options::read("kill", args, &[switch("all", Some('a'))], Words::Mixed)?;
    let signal = (options.words.len() > 1).then(|| options.words.remove(1));
    let signal = signal.map_or(Ok(Signal::TERM), |text| Signal::parse(&text.to_string_lossy()))?;
    let all = options.is_on("all");
    globals.engine().kill(&options.id()?, signal, all).map(done)
}

fn delete(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    let options = Options::read("delete", args, &[switch("force", Some('f'))], Words::Mixed)?;
    let force = options.is_on("force");
    globals.engine().delete(&options.id()?, force).map(done)
}
