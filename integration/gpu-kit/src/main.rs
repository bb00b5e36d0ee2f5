//! The kit for a real GPU: one archive for a machine that has an NVIDIA driver and nothing else.
//!
//! ```text
//! baton-gpu-kit pack OUT      packs it (make gpu-kit)
//! ./run = baton-gpu-kit run   for each check, within its time:  baton-gpu-kit check NAME
//!              └─ baton-gpu-kit bed   in a mount namespace with a containerd of its own: the checks of the suite
//! ```
//! A check is a function in a list ([`checks::ALL`]); it joins the kit by being added there.

mod asked;
mod bed;
mod check;
mod checks;
mod child;
mod fidelity;
mod kit;
mod machine;
mod pack;
mod report;
mod root;
mod runner;
mod suite;
mod target;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: baton-gpu-kit run [--out DIR] [--only NAME]...
       baton-gpu-kit list
       baton-gpu-kit check NAME
       baton-gpu-kit pack OUT.tar.gz --bin DIR --root DIR";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["run", rest @ ..] => options(rest).and_then(|(out, only)| runner::run(out, &only)),
        ["list"] => {
            checks::ALL.iter().for_each(|check| println!("{:28} {}", check.name, check.what));
            Ok(true)
        }
        ["check", name] => check::run_here(name).map(|()| true),
        ["bed", names @ ..] => bed::run(names).map(|()| true),
        ["pack", out, "--bin", bin, "--root", root] => {
            pack::pack(out.as_ref(), bin.as_ref(), root.as_ref()).map(|()| true)
        }
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("baton-gpu-kit: {why}");
            ExitCode::from(2)
        }
    }
}

fn options(words: &[&str]) -> Result<(Option<PathBuf>, Vec<String>), String> {
    let (mut out, mut only, mut left) = (None, Vec::new(), words.iter());
    while let Some(word) = left.next() {
        let value = left.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"))?;
        match *word {
            "--out" => out = Some(PathBuf::from(value)),
            "--only" => only.push(checks::find(value)?.name.to_owned()),
            other => return Err(format!("unknown option {other}\n{USAGE}")),
        }
    }
    Ok((out, only))
}
