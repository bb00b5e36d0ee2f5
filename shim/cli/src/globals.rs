//! Options before the verb.

use std::ffi::OsString;
use std::path::PathBuf;

use baton_engine::Engine;
use baton_fault::{Code, Fault, Result};
use lexopt::Arg;

use crate::arguments::{text, usage};

/// Options before the verb.
#[derive(Debug, PartialEq, Eq)]
pub struct Globals {
    /// State folder.
    pub root: PathBuf,
    /// Errors are also written here.
    pub log: Option<PathBuf>,
    /// In runc's JSON form.
    pub log_json: bool,
    /// systemd makes the cgroups.
    pub systemd_cgroup: bool,
    /// `--version`.
    pub version: bool,
    /// `--help`.
    pub help: bool,
}

impl Default for Globals {
    fn default() -> Self {
        Globals {
            root: PathBuf::from(baton_engine::ROOT),
            log: None,
            log_json: false,
            systemd_cgroup: false,
            version: false,
            help: false,
        }
    }
}

impl Globals {
    /// Reads the options before the verb; the verb and what follows it is returned with them.
    ///
    /// # Errors
    /// `USAGE`.
    pub fn parse(args: &[OsString]) -> Result<(Globals, &[OsString])> {
        let mut globals = Globals::default();
        let mut parser = lexopt::Parser::from_args(args);
        loop {
            // The verb and all that follows it is not for this parser.
            let verb = parser.try_raw_args().and_then(|raw| {
                let rest = raw.as_slice();
                let is_option = rest.first().is_some_and(|arg| arg.to_string_lossy().starts_with('-'));
                (!is_option).then_some(rest.len())
            });
            if let Some(left) = verb {
                return Ok((globals, &args[args.len() - left..]));
            }
            match parser.next().map_err(usage)? {
                Some(Arg::Long("root")) => globals.root = parser.value().map_err(usage)?.into(),
                Some(Arg::Long("log")) => globals.log = Some(parser.value().map_err(usage)?.into()),
                Some(Arg::Long("log-format")) => globals.log_json = is_json(&text(&mut parser)?)?,
                Some(Arg::Long("rootless")) => is_not_rootless(&text(&mut parser)?)?,
                // As with runc, CRIU is found on PATH.
                Some(Arg::Long("criu")) => drop(parser.value().map_err(usage)?),
                Some(Arg::Long("systemd-cgroup")) => globals.systemd_cgroup = true,
                Some(Arg::Long("debug")) => {}
                Some(Arg::Long("version") | Arg::Short('v')) => globals.version = true,
                Some(Arg::Long("help") | Arg::Short('h')) => globals.help = true,
                Some(other) => return Err(usage(other.unexpected())),
                None => return Ok((globals, &[])),
            }
        }
    }

    /// The engine that these options mean.
    pub fn engine(&self) -> Engine {
        Engine::new(&self.root).with_systemd_cgroup(self.systemd_cgroup)
    }
}

fn is_json(format: &str) -> Result<bool> {
    match format {
        "" | "text" => Ok(false),
        "json" => Ok(true),
        other => Err(Fault::new(Code::Usage, format_args!("--log-format {other}"), "there is none of that name")
            .advise("use text or json")),
    }
}

/// runc's `auto` and `false` are what Baton does; `true` is not.
fn is_not_rootless(value: &str) -> Result<()> {
    match value {
        "auto" | "false" | "0" => Ok(()),
        other => Err(Fault::new(Code::Usage, format_args!("--rootless {other}"), "Baton runs no rootless containers")
            .advise("leave it out, and run as root")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn options_before_the_verb_are_ours_and_the_rest_is_not() {
        let line = args("--root /r --log=/l --log-format json --systemd-cgroup create --bundle /b --root x job");
        let (globals, rest) = Globals::parse(&line).expect("parse");
        assert_eq!(globals.root, PathBuf::from("/r"));
        assert_eq!(globals.log, Some(PathBuf::from("/l")));
        assert!(globals.log_json && globals.systemd_cgroup);
        assert_eq!(rest, args("create --bundle /b --root x job"));
    }

    #[test]
    fn an_unknown_option_is_refused() {
        let line = args("--rooot /r state x");
        assert_eq!(Globals::parse(&line).expect_err("unknown").code, baton_fault::Code::Usage);
    }

    #[test]
    fn what_baton_cannot_do_is_refused_and_what_it_may_ignore_is_taken() {
        for line in ["--log-format xml state x", "--rootless true state x", "--rootless=yes state x"] {
            assert_eq!(Globals::parse(&args(line)).expect_err(line).code, Code::Usage);
        }
        let line = args("--rootless=false --debug --criu /c --log-format text state x");
        assert_eq!(Globals::parse(&line).expect("parse").1, args("state x"));
    }

    #[test]
    fn no_arguments_are_no_verb() {
        assert_eq!(Globals::parse(&[]).expect("parse"), (Globals::default(), &[][..]));
    }
}
