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
mod driver_program;
mod fidelity;
mod kit;
mod machine;
mod mig;
mod mps;
mod pack;
mod report;
mod root;
mod runner;
mod scratch;
mod stopping;
mod suite;
mod target;
mod undo;

use std::path::PathBuf;
use std::process::ExitCode;

use runner::{End, Wish};

const USAGE: &str = "usage: ./run [--out DIR] [--only NAME]... [--mig]

  --out DIR    where report.txt and report.json go, and what is large for a while (3 GB); the folder of the kit by default
  --only NAME  this check; may be repeated
  --mig        an idle card may be switched to MIG mode, or be cut where it is in that mode and whole, for a while

Some checks fill a card for some seconds: no other job should be at work on the machine. The end is 0 where all is well, 1
where something failed, 2 for a wrong command line, 3 where nothing could be found out.";
const USAGE_OF_MAKERS: &str = "for those who make the kit: baton-gpu-kit list | check NAME
       baton-gpu-kit pack OUT.tar.gz --bin DIR --root DIR --python LAYER.tar";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["run", "--help" | "-h"] => {
            println!("{USAGE}\n\nThe checks:");
            list();
            Ok(End::Good)
        }
        ["run", rest @ ..] => wish(rest).and_then(runner::run),
        ["list"] => {
            list();
            Ok(End::Good)
        }
        ["check", name] => check::run_here(name).map(|()| End::Good),
        ["bed", names @ ..] => bed::run(names).map(|()| End::Good),
        ["pack", out, "--bin", bin, "--root", root, "--python", python] => {
            pack::pack(out.as_ref(), bin.as_ref(), root.as_ref(), python.as_ref()).map(|()| End::Good)
        }
        _ => Err(USAGE_OF_MAKERS.to_owned()),
    };
    match done {
        Ok(End::Good) => ExitCode::SUCCESS,
        Ok(End::Bad) => ExitCode::FAILURE,
        Ok(End::Nothing) => ExitCode::from(3),
        Err(why) => {
            eprintln!("baton-gpu-kit: {why}");
            ExitCode::from(2)
        }
    }
}

fn list() {
    checks::ALL.iter().for_each(|check| println!("  {:16} {}", check.name, check.what));
}

fn wish(words: &[&str]) -> Result<Wish, String> {
    let (mut wish, mut left) = (Wish::default(), words.iter());
    while let Some(word) = left.next() {
        let mut value = || left.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
        match *word {
            "--out" => wish.out = Some(PathBuf::from(value()?)),
            "--only" => wish.only.push(checks::find(value()?)?.name.to_owned()),
            "--mig" => wish.mig = true,
            other => return Err(format!("unknown option {other}\n{USAGE}")),
        }
    }
    Ok(wish)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read() {
        let all = Wish { out: Some(PathBuf::from("/o")), only: vec!["states".to_owned()], mig: true };
        assert_eq!(wish(&["--mig", "--only", "states", "--out", "/o"]), Ok(all));
        assert_eq!(wish(&[]), Ok(Wish::default()));
        for wrong in [&["--only", "nothing"][..], &["--out"], &["states"], &["--migrate"]] {
            assert!(wish(wrong).is_err(), "{wrong:?}");
        }
    }
}
