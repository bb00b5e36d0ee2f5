//! `create` and `run`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use baton_config::Settings;
use baton_engine::{Create, Run};
use baton_fault::{Attempt, Result};

use super::{done, exit};
use crate::globals::Globals;
use crate::options::{Known, Options, Words, refused, switch, value};

/// The options of both.
const CREATE: [Known; 7] = [
    value("bundle", Some('b')),
    value("console-socket", None),
    value("pid-file", None),
    switch("no-pivot", None),
    switch("no-new-keyring", None),
    value("preserve-fds", None),
    refused("pidfd-socket", "Baton sends no pidfd; use --pid-file"),
];

/// What `run` has beside those.
const RUN: [Known; 3] = [
    switch("detach", Some('d')),
    switch("keep", None),
    // Orphans of the container are for whoever is a subreaper above us.
    switch("no-subreaper", None),
];

pub fn create(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    let options = Options::read("create", args, &CREATE, Words::Mixed)?;
    let create = asked_for(&options)?;
    let id = options.id()?;
    inject(&create.bundle)?;
    globals.engine().create(&id, &create).map(done)
}

pub fn run(globals: &Globals, args: &[OsString]) -> Result<ExitCode> {
    let options = Options::read("run", args, &[&CREATE[..], &RUN].concat(), Words::Mixed)?;
    let run = Run { create: asked_for(&options)?, detach: options.is_on("detach"), keep: options.is_on("keep") };
    let id = options.id()?;
    inject(&run.create.bundle)?;
    globals.engine().run(&id, &run).map(exit)
}

fn asked_for(options: &Options) -> Result<Create> {
    Ok(Create {
        bundle: options.path("bundle").unwrap_or_else(|| ".".into()),
        console_socket: options.path("console-socket"),
        pid_file: options.path("pid-file"),
        no_pivot: options.is_on("no-pivot"),
        no_new_keyring: options.is_on("no-new-keyring"),
        preserve_fds: options.number("preserve-fds")?.unwrap_or(0),
    })
}

/// Gives the container the devices that it asks for, unless a shim has done so.
fn inject(bundle: &Path) -> Result<()> {
    let hook = std::env::current_exe().attempt(|| "find the folder of this program")?.with_file_name("baton-hook");
    baton_devices::inject::unless_done(bundle, &Settings::load()?.driver, &hook)
}
