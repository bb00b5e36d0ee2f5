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
mod stopping;
mod suite;
mod target;
mod undo;

use std::path::PathBuf;
use std::process::ExitCode;

use runner::Wish;

const USAGE: &str = "usage: baton-gpu-kit run [--out DIR] [--only NAME]... [--mig]
       baton-gpu-kit list
       baton-gpu-kit check NAME
       baton-gpu-kit pack OUT.tar.gz --bin DIR --root DIR --python LAYER.tar";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["run", rest @ ..] => wish(rest).and_then(runner::run),
        ["list"] => {
            checks::ALL.iter().for_each(|check| println!("{:28} {}", check.name, check.what));
            Ok(true)
        }
        ["check", name] => check::run_here(name).map(|()| true),
        ["bed", names @ ..] => bed::run(names).map(|()| true),
        ["pack", out, "--bin", bin, "--root", root, "--python", python] => {
            pack::pack(out.as_ref(), bin.as_ref(), root.as_ref(), python.as_ref()).map(|()| true)
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
