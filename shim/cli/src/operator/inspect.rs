//! `baton inspect REF`: what a checkpoint image holds, and what a node needs to restore it.

use std::ffi::OsString;
use std::process::ExitCode;

use baton_config::Settings;
use baton_fault::{Code, Fault, Result};
use baton_image::Inspection;
use lexopt::Arg;

use super::containerd::Address;
use crate::arguments;

/// Prints what a checkpoint image holds.
pub fn run(args: &[OsString]) -> Result<ExitCode> {
    let settings = Settings::load()?;
    let mut address = Address::default();
    let (mut names, mut json) = (Vec::new(), false);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(arguments::usage)? {
        match arg {
            Arg::Long("json") => json = true,
            Arg::Value(name) => names.push(arguments::string(name)?),
            Arg::Short('n') | Arg::Long("namespace") => address.take_namespace(&mut parser)?,
            Arg::Short('a') | Arg::Long("address") => address.take_socket(&mut parser)?,
            other => return Err(arguments::usage(other.unexpected())),
        }
    }
    let Ok([reference]) = <[String; 1]>::try_from(names) else {
        return Err(Fault::new(Code::Usage, "inspect", "one image reference is needed")
            .advise("baton inspect REGISTRY/NAME:TAG"));
    };
    let containerd = address.resolve(&settings);
    let inspection = super::wait(async {
        let store = containerd.connect().await?;
        let checkpoint = store.checkpoint_required(&reference).await.map_err(|fault| match fault.code {
            Code::NotFound => fault.advise(format!("pull it first: ctr image pull {reference}")),
            _ => fault,
        })?;
        Ok(Inspection::from(&checkpoint))
    })?;
    if json {
        let manifest = serde_json::to_string_pretty(&inspection.manifest);
        say!("{}", manifest.map_err(|err| Fault::new(Code::System, "print", err))?);
    } else {
        say!("{}", inspection.to_string().trim_end());
    }
    Ok(ExitCode::SUCCESS)
}
