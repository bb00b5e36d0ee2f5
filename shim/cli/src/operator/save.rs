//! `baton save CONTAINER REF`: checkpoint to an image.

use std::ffi::OsString;
use std::process::ExitCode;

use baton_checkpoint::control::{Ask, ask};
use baton_checkpoint::save::{Request, Saved};
use baton_config::Settings;
use baton_fault::{Code, Fault, Result};
use lexopt::Arg;

use super::containerd::Address;
use super::sizes::Bytes;
use crate::arguments;

/// Asks the container's shim for a save, and says what became of it.
pub fn run(args: &[OsString]) -> Result<ExitCode> {
    let settings = Settings::load()?;
    let mut address = Address::default();
    let (mut names, mut stop, mut push, mut json) = (Vec::new(), false, false, false);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(arguments::usage)? {
        match arg {
            Arg::Long("stop") => stop = true,
            Arg::Long("push") => push = true,
            Arg::Long("json") => json = true,
            Arg::Value(name) => names.push(arguments::string(name)?),
            Arg::Short('n') | Arg::Long("namespace") => address.take_namespace(&mut parser)?,
            Arg::Short('a') | Arg::Long("address") => address.take_socket(&mut parser)?,
            other => return Err(arguments::usage(other.unexpected())),
        }
    }
    let Ok([container, reference]) = <[String; 2]>::try_from(names) else {
        return Err(Fault::new(Code::Usage, "save", "a container and an image reference are needed")
            .advise("baton save [--stop] [--push] CONTAINER REGISTRY/NAME:TAG"));
    };
    let containerd = address.resolve(&settings);
    let request = Request { reference, stop, push };
    let saved = super::wait(ask(&settings.paths.run, &containerd.namespace, &container, &Ask::Save(request)))?;
    if json {
        say!("{}", serde_json::to_string(&saved).map_err(|err| Fault::new(Code::System, "print", err))?);
    } else {
        say_text!("{}", render(&container, &saved, push));
    }
    Ok(ExitCode::SUCCESS)
}

fn render(container: &str, saved: &Saved, pushed: bool) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let became = if saved.stopped {
        "and stopped"
    } else if saved.ended {
        "and ended meanwhile"
    } else if saved.paused {
        "and stays paused"
    } else {
        "and goes on"
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "saved {container} as {} {became}", saved.reference);
    let _ = writeln!(text, "  digest      {}", saved.image.digest);
    let _ = writeln!(
        text,
        "  image       {} in all, {} of it memory (from {})",
        Bytes(saved.image.bytes),
        Bytes(saved.image.bytes_pages),
        Bytes(saved.image.bytes_memory)
    );
    let _ = writeln!(text, "  GPU memory  {}", Bytes(saved.gpu_bytes));
    let _ = writeln!(
        text,
        "  time        {} ms in all, off the card {} ms, frozen {} ms",
        saved.total_ms, saved.held_ms, saved.frozen_ms
    );
    for step in &saved.steps {
        let _ = writeln!(text, "    {:<22} {:>6} ms", step.name, step.ms);
    }
    if pushed {
        let _ = writeln!(text, "  pushed      {}", saved.reference);
    }
    text
}
