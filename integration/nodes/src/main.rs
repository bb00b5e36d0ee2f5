//! `baton-node`: test nodes by hand.

use std::path::PathBuf;
use std::process::ExitCode;

use baton_fault::{Code, Fault, Result};
use baton_nodes::cell::Cell;
use baton_nodes::{NodeOptions, boot, enter, house, start, stop};

const USAGE: &str = "\
integration/node start NAME [--cards SPEC] [--containerd VERSION|DIR] [--disk SIZE] [--bin DIR] [--cgroup2] [--programs NAME]...
integration/node exec NAME CMD...   run a command in a node
integration/node shell NAME         a shell in a node
integration/node list
integration/node stop NAME | stop --all

  --cards SPEC       simulated cards, such as h100x2; none by default
  --containerd …     another containerd, ctr and shim, in place of the root's own: a version that
                     integration/programs built (2.0, 2.2, 2.3, 2.4, or exactly), or a folder
  --disk SIZE        a file system of that size at /var/lib (bytes, or with K, M or G)
  --bin DIR          where Baton was built; beside this program by default
  --cgroup2          the node sees cgroup v2 alone
  --programs NAME    has these of integration/programs installed too

In a node: ctr, crictl, baton and containerd; the registry registry.test:5000; the images localhost/baton/counter:1 and localhost/baton/pause:1.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<u8> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["start", name, options @ ..] => start::start(&parse(name, options)?).map(|()| 0),
        ["exec", name, "--", ..] => exec(name, &arguments[3..]),
        ["exec", name, ..] => exec(name, &arguments[2..]),
        ["shell", name] => exec(name, &["bash".to_owned()]),
        ["stop", "--all"] => stop::stop_all().map(|()| 0),
        ["stop", name] => stop::stop(name).map(|()| 0),
        ["list"] => {
            list();
            Ok(0)
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(0)
        }
        // What `start` runs in the new namespaces.
        ["boot", name] => boot::boot(name).map(|()| 0),
        [] => Err(usage("there is no verb")),
        [verb, ..] => Err(usage(&format!("{verb:?} with these arguments is none of its verbs"))),
    }
}

fn usage(why: &str) -> Fault {
    Fault::new(Code::Usage, "read the command line", why).advise("see integration/node help")
}

fn exec(name: &str, command: &[String]) -> Result<u8> {
    enter::exec(name, command).map(|code| u8::try_from(code & 0xff).unwrap_or(u8::MAX))
}

fn parse(name: &str, words: &[&str]) -> Result<NodeOptions> {
    let mut options = NodeOptions::new(name);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().ok_or_else(|| usage(&format!("{word} needs a value")));
        match *word {
            "--cards" => options.cards = Some(value()?.to_owned()),
            "--containerd" => options.containerd = Some(PathBuf::from(value()?)),
            "--disk" => options.disk = Some(bytes(value()?)?),
            "--bin" => options.bin = Some(PathBuf::from(value()?)),
            "--cgroup2" => options.cgroup2 = true,
            "--programs" => options.programs.push(value()?.to_owned()),
            _ => return Err(usage(&format!("{word:?} is none of its options"))),
        }
    }
    Ok(options)
}

/// `4096`, `64M`, `2G`.
fn bytes(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(usage(&format!("{text:?} is not a size"))),
    };
    let number: u64 = digits.parse().map_err(|_| usage(&format!("{text:?} is not a size")))?;
    number.checked_mul(1 << shift).ok_or_else(|| usage(&format!("{text:?} is too large")))
}

fn list() {
    for name in house::names() {
        let Ok(cell) = Cell::load(&name) else {
            println!("{name}\tbroken\t-\t-\t-");
            continue;
        };
        let (state, pid) = match Cell::first(&name) {
            Some(first) => ("running", first.pid.to_string()),
            None => ("ended", "-".to_owned()),
        };
        println!("{name}\t{state}\t{pid}\t{}\t{}", cell.address(), cell.cards.as_deref().unwrap_or("none"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64M"), Ok(64 << 20));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        for bad in ["", "M", "1T", "1MM", "-1", "99999999999G"] {
            assert_eq!(bytes(bad).map_err(|fault| fault.code), Err(Code::Usage), "{bad}");
        }
    }

    #[test]
    fn an_unknown_option_is_refused() {
        assert!(parse("a", &["--card", "x"]).is_err());
        assert!(parse("a", &["--cards"]).is_err());
        assert_eq!(parse("a", &["--cards", "h100x2"]).map(|o| o.cards), Ok(Some("h100x2".to_owned())));
    }
}
