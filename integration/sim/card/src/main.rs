//! The simulated cards of one node: lays out a driver root, plays the hardware, takes orders, checks the books.

mod account;
mod administer;
mod books;
mod capabilities;
mod connection;
mod faults;
mod hardware;
mod install;
mod known_calls;
mod lock;
mod memory;
mod old_driver;
mod orders;
mod plausible;
mod serve;
mod sharing;
mod spec;
mod state_file;
mod tickets;
mod whole_file;
mod written_down;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use baton_sim_wire::{Channel, DEFAULT_DRIVER, DriverRoot, HARDWARE_FILE, Reply, Request};

const USAGE: &str = "usage: baton-sim-card install --root DIR --libs DIR --cards SPEC --seed NAME [--driver VERSION]
       baton-sim-card serve --root DIR
       baton-sim-card order --root DIR KEY=VALUE…
       baton-sim-card books --root DIR

SPEC: none, or a comma-separated list of a30, a100-40, a100-80, h100, h200, b200, vgpu-a100-10, each with an optional
      xCOUNT and an optional +SIZEg that a tenant of somebody else's holds (h100x2,a100-40+20g)
KEY:  copy-rate=BYTES/s (0: unlimited)  fail-checkpoint=CODE  fail-restore=CODE  lock-hang=1  mig-checkpoint=1
      mps-checkpoint=1  fault=CALL[@PROGRAM]:ACTION[*COUNT]  (KEY=off takes it back)
      CALL is a C function, or Lock, Checkpoint, Restore, Unlock, State of a process that is saved;
      ACTION is error-CODE, delay-MS, hang or crash; COUNT is 1, another number or all";

fn main() -> ExitCode {
    let odd = |argument: OsString| format!("{argument:?} is not UTF-8\n{USAGE}");
    let arguments: Result<Vec<String>, String> =
        std::env::args_os().skip(1).map(|argument| argument.into_string().map_err(odd)).collect();
    match arguments.and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("baton-sim-card: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well, or why the verb could not be carried out.
fn run(arguments: &[String]) -> Result<bool, String> {
    let Some((verb, rest)) = arguments.split_first() else { return Err(USAGE.to_owned()) };
    let (mut flags, words) = split(rest)?;
    let mut flag = |name: &str| flags.remove(name).ok_or_else(|| format!("{name} is missing\n{USAGE}"));
    let root = PathBuf::from(flag("--root")?);
    let description = match verb.as_str() {
        "install" => {
            let (libs, cards, seed) = (PathBuf::from(flag("--libs")?), flag("--cards")?, flag("--seed")?);
            let driver = flag("--driver").unwrap_or_else(|_| DEFAULT_DRIVER.to_owned());
            Some((libs, spec::Hardware::from_spec(&cards, &seed, &driver)?))
        }
        _ => None,
    };
    // What nobody has asked for would be left undone without a word.
    let stray = flags.keys().next().or(words.first().filter(|_| verb != "order"));
    if let Some(stray) = stray {
        return Err(format!("{verb} knows no {stray:?}\n{USAGE}"));
    }
    if let Some((libs, hardware)) = description {
        let laid_out = install::install(&root, &libs, &hardware);
        return laid_out.map(|()| true).map_err(|e| format!("cannot lay out {}: {e}", root.display()));
    }
    match verb.as_str() {
        "serve" => serve::serve(&root).map(|()| true),
        "order" => order(&root, &words).map(|()| true),
        "books" => show_books(&root),
        other => Err(format!("unknown verb {other:?}\n{USAGE}")),
    }
}

fn split(arguments: &[String]) -> Result<(HashMap<String, String>, Vec<String>), String> {
    let (mut flags, mut words) = (HashMap::new(), Vec::new());
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        if argument.starts_with("--") {
            let value = left.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"))?;
            if flags.insert(argument.clone(), value.clone()).is_some() {
                return Err(format!("{argument} is there twice\n{USAGE}"));
            }
        } else {
            words.push(argument.clone());
        }
    }
    Ok((flags, words))
}

fn connect(root: &std::path::Path) -> Result<Channel, String> {
    let hardware = spec::Hardware::read(&root.join(HARDWARE_FILE))?;
    let socket = DriverRoot::at(root, hardware.driver).socket();
    Channel::connect(&socket).map_err(|e| format!("no hardware answers at {}: {e}", socket.display()))
}

fn order(root: &std::path::Path, words: &[String]) -> Result<(), String> {
    if words.is_empty() {
        return Err(format!("no order given\n{USAGE}"));
    }
    let malformed = |word: &String| format!("{word:?} is not KEY=VALUE\n{USAGE}");
    let orders = words.iter().map(|word| word.split_once('=').ok_or_else(|| malformed(word)));
    let orders: Vec<(&str, &str)> = orders.collect::<Result<_, _>>()?;
    let channel = connect(root)?;
    for (key, value) in orders {
        let request = Request::Order { key: key.to_owned(), value: value.to_owned() };
        match channel.ask(&request).map_err(|e| format!("the hardware did not answer: {e}"))?.0 {
            Reply::Done => {}
            Reply::Refused { why, .. } => return Err(why),
            other => return Err(format!("unexpected answer {other:?}")),
        }
    }
    Ok(())
}

fn show_books(root: &std::path::Path) -> Result<bool, String> {
    match connect(root)?.ask(&Request::Books).map_err(|e| format!("the hardware did not answer: {e}"))?.0 {
        Reply::Books { ledger } => {
            let text = serde_json::to_string(&ledger).map_err(|e| e.to_string())?;
            writeln!(std::io::stdout(), "{text}").map_err(|e| format!("cannot print the books: {e}"))?;
            Ok(ledger.balanced)
        }
        other => Err(format!("unexpected answer {other:?}")),
    }
}
