//! `nvidia-smi`, as far as operators and their scripts use it: what it prints, and how it ends.
//!
//! It asks `libnvidia-ml.so.1` for everything, as the real one does, with bindings that were generated from `nvml.h`.
//! Texts and tables are those of driver 580 as NVIDIA's guides quote them.

mod administer;
mod arguments;
mod compute_policy;
mod device;
mod fields;
mod full;
mod list;
mod mig;
mod nvml;
mod outcome;
mod query;
mod select;
mod sensors;
mod table;
mod timestamp;
mod topology;

use std::process::ExitCode;

use arguments::Command;
use nvml::Nvml;
use outcome::{Failure, Outcome};

fn main() -> ExitCode {
    // Who reads may stop: `nvidia-smi | head` is no fault.
    // SAFETY: no handler is installed, only the default action.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    // What is not UTF-8 is no argument that anybody knows.
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print!("{}", failure.text);
            ExitCode::from(failure.exit)
        }
    }
}

fn run(arguments: &[String]) -> Outcome {
    let (command, selection) = arguments::parse(arguments)?;
    if let Command::Help(text) = &command {
        print!("{text}");
        return Ok(());
    }
    let nvml = Nvml::load()?;
    let devices = select::devices(&nvml, selection.as_deref())?;
    if devices.is_empty() && !matches!(command, Command::Version) {
        return Err(Failure::no_devices());
    }
    match command {
        Command::Help(_) => Ok(()),
        Command::Version => list::version(&nvml),
        Command::List => list::list(&devices),
        Command::Table => table::print(&nvml, &devices),
        Command::Full(form) => full::print(&nvml, &devices, &form),
        Command::QueryGpu { fields, form } => query::gpus(&devices, &fields, form),
        Command::QueryApps { fields, form } => query::applications(&nvml, &devices, &fields, form),
        Command::MigMode(on) => administer::mig_mode(&devices, on),
        Command::Persistence(on) => administer::persistence(&devices, on),
        Command::ComputeMode(mode) => administer::compute_mode(&devices, mode),
        Command::Reset => administer::reset(&devices),
        Command::Policy(compute_policy::Command::List) => compute_policy::list(&devices),
        Command::Policy(compute_policy::Command::SetTimeslice(to)) => administer::timeslice(&devices, to),
        Command::Topology(command) => topology::run(&nvml, &devices, &command),
        Command::Mig(command) => mig::run(&devices, &command),
    }
}
